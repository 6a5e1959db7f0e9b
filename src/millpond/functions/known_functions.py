"""The registered functions that this process knows, by reference (`udf__lookup__1f2e3d4c_7`: name, opening, number).

A reference names one function for ever: who registers another one under the same name makes a new reference. The
process that registered a function has it; others read it from the pond's folder. DuckDB connections get every known
function once, in the order in which they became known.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import cloudpickle
import duckdb
import pyarrow as pa

from millpond.functions.calling import UserFunctionError, over_arrays
from millpond.functions.mergeable_states import adding, finishing, merging
from millpond.support.checksums import NotAsWritten, sealed, unsealed
from millpond.support.damaged_files import reading
from millpond.support.errors import QueryError
from millpond.types import ADD, FunctionDefinition, from_json, to_json

_REFERENCE = re.compile(r"\budf__(\w+?)__[0-9a-f]{8}_\d+\b")
_lock = threading.Lock()
_known: dict[str, Function] = {}
_ordered: list[Function] = []


@dataclass(frozen=True)
class Function:
    """A registered function with its Python. `function` is None where that cannot be loaded here: `fault` says why."""

    definition: FunctionDefinition
    function: Callable[..., Any] | None
    fault: str = ""

    @cached_property
    def _types(self) -> list[pa.DataType]:
        kinds = [*self.definition.arguments, self.definition.returns]
        nulls = ", ".join(f"CAST(NULL AS {kind}) AS t{n}" for n, kind in enumerate(kinds))
        with duckdb.connect(":memory:") as db:
            return list(db.sql(f"SELECT {nulls}").to_arrow_table().schema.types)

    @property
    def takes(self) -> list[pa.DataType]:
        """The types of its arguments in Arrow."""
        return self._types[:-1]

    @property
    def returns(self) -> pa.DataType:
        """The type of its results in Arrow."""
        return self._types[-1]

    @cached_property
    def call(self) -> Callable[..., pa.Array]:
        """The function over Arrow arrays; see `over_arrays`. Raises: UserFunctionError when it fails."""
        definition = self.definition
        if self.function is None:
            return self._unloaded
        if not definition.mergeable:
            return over_arrays(definition.name, self.function, definition.vectorised, self.returns)
        if definition.reference.endswith(ADD):
            return adding(definition.name, self.function)
        return finishing(definition.name, self.function, self.returns)

    @property
    def loaded(self) -> Callable[..., Any]:
        """The Python. Raises: UserFunctionError where it cannot be loaded."""
        return self._unloaded() if self.function is None else self.function

    def _unloaded(self, *_: Any) -> Any:
        raise UserFunctionError(f"registered function {self.definition.name} cannot be loaded: {self.fault}")


def put(function: Function) -> None:
    """Make a function known in this process."""
    with _lock:
        if function.definition.reference not in _known:
            for each in _parts(function):
                _known[each.definition.reference] = each
                _ordered.append(each)


def _parts(function: Function) -> list[Function]:
    """What SQL calls of a function: of an aggregate whose states merge how these are made of rows, and finished."""
    definition = function.definition
    if not definition.mergeable:
        return [function]
    add = replace(definition, reference=definition.reference + ADD, returns="BLOB")
    finish = replace(definition, arguments=("BLOB[]",))
    return [replace(function, definition=finish), replace(function, definition=add)]


def merge_states(reference: str, states: pa.Array) -> pa.Array:
    """Lists of states of an aggregate, each put together to a list of one. Raises: UserFunctionError when it fails."""
    found = function_of(reference)
    return merging(found.definition.name, found.loaded)(states)


def function_of(reference: str) -> Function:
    """The function of a reference. Raises: QueryError when it is not known here."""
    found = _known.get(reference)
    if found is None:
        raise QueryError(f"function '{display(reference)}' is not registered in this process")
    return found


def display(text: str) -> str:
    """A text with the names of functions in the place of references."""
    return _REFERENCE.sub(lambda m: m[1], text) if "udf__" in text else text


def install(db: duckdb.DuckDBPyConnection, done: int) -> int:
    """Put the functions that became known since the first `done` into a connection. Returns how many are known."""
    for function in _ordered[done:]:
        d = function.definition
        create: Any = db.create_function  # its types know no names of types
        create(d.reference, _caller(function), list(d.arguments), d.returns, type="arrow", null_handling="special")
        done += 1
    return done


def _caller(function: Function) -> Callable[..., pa.Array]:
    """The function as DuckDB wants it: with a parameter for each argument."""

    def call(*columns: pa.Array) -> pa.Array:
        return function.call(*columns)

    kind = inspect.Parameter.POSITIONAL_ONLY
    names = [inspect.Parameter(f"a{n}", kind) for n in range(len(function.definition.arguments))]
    call.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]  # `inspect` asks it, typeshed has it not
    return call


# -- the pond's folder -------------------------------------------------------------------------------------------------


def _path(pond: str, reference: str) -> str:
    return os.path.join(pond, "functions", f"{reference}.pickle")


def share(pond: str, definition: FunctionDefinition, function: Callable[..., Any]) -> bytes:
    """What `use` reads: the definition, and the pickled Python. Raises: QueryError when it cannot be pickled."""
    try:
        blob: bytes = cloudpickle.dumps(function)
    except Exception as error:
        raise QueryError(f"function '{definition.name}' travels to workers, and cannot be pickled: {error}") from None
    head = {**to_json(definition), "pickle": zlib.crc32(blob)}
    return sealed(json.dumps(head, separators=(",", ":")).encode()) + b"\n" + blob


def withdraw(pond: str, reference: str) -> None:
    """Remove a function from the pond's folder."""
    if os.path.exists(_path(pond, reference)):
        os.unlink(_path(pond, reference))


def use(pond: str) -> None:
    """Know the functions that lie in a pond's folder. Cheap for a pond without any."""
    folder = os.path.join(pond, "functions")
    if not os.path.isdir(folder):
        return
    for name in sorted(os.listdir(folder), key=lambda n: (len(n), n)):
        reference = name.removesuffix(".pickle")
        if reference == name or reference in _known or not _REFERENCE.fullmatch(reference):
            continue
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            head, _, blob = file.read().partition(b"\n")
        with reading(path):
            told = json.loads(unsealed(head))
            if told.pop("pickle", zlib.crc32(blob)) != zlib.crc32(blob):
                raise NotAsWritten("its checksum is another's")
            definition = from_json(FunctionDefinition, told)
        try:
            put(Function(definition, cloudpickle.loads(blob)))
        except Exception as error:
            put(Function(definition, None, f"{type(error).__name__}: {error}"))
