"""Registering Python functions that queries call: checked, kept in the pond's folder, recorded in the catalog."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from millpond.answers.describe.explain_filters import plan_table
from millpond.answers.describe.functions import users_of
from millpond.engine.core import Core
from millpond.functions import Function, put, share, use, withdraw
from millpond.language import Select, parse
from millpond.language.functions.allowed import AGGREGATES, REFUSED, RELATION_AGGREGATES, SCALARS, WINDOW_FUNCTIONS
from millpond.language.inference.duck import Refused, describe
from millpond.support.errors import QueryError, StatementError
from millpond.tables import write_durably
from millpond.types import FunctionDefinition, to_json

#: What a name of the language is.
_TAKEN = SCALARS | AGGREGATES.keys() | RELATION_AGGREGATES | WINDOW_FUNCTIONS | REFUSED.keys()


class UserFunctions:
    """The registered functions of an open pond.

    Arguments:
        changed: called when names have come to mean something else.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self.changed: Callable[[], None] = lambda: None
        use(core.path)
        self._tidy()

    def register(
        self,
        name: str,
        function: Callable[..., Any],
        arguments: Sequence[str],
        returns: str,
        vectorised: bool,
        cost: float | None,
    ) -> str:
        """See `Pond.register_function`."""
        low = name.lower()
        if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", low, re.ASCII):
            raise QueryError(f"'{name}' cannot be a function's name; letters, digits and single _ between them can")
        if low in _TAKEN:
            raise QueryError(f"'{low}' is a function of the language; choose another name")
        if not _is_callable(low):
            raise QueryError(f"'{low}' is a word of the language and could not be called; choose another name")
        if isinstance(arguments, str):
            raise QueryError(f"function '{low}': arguments are a list of types, such as [{arguments!r}]")
        types = tuple(_type(low, kind) for kind in arguments)
        _check_signature(low, function, len(types))
        if not types:
            raise QueryError(f"function '{low}' takes nothing, and would give the same for every row")
        if cost is not None and not cost > 0:
            raise QueryError(f"function '{low}': cost is microseconds for a row, more than 0, not {cost}")
        core = self.core
        with core.lock:
            if (old := core.catalog.functions.get(low)) is not None:
                self._refuse_used(old, "drop them first, or choose another name")
            number = core.register.reserve_id(core.catalog.next_id)
            reference = f"udf__{low}__{core.ownership.opening[:8]}_{number}"
            definition = FunctionDefinition(low, reference, types, _type(low, returns), vectorised, cost, number)
            blob = share(core.path, definition, function)
            made = Function(definition, function)
            made.call  # noqa: B018 - its type is one that Arrow has
            path = os.path.join(core.path, "functions", f"{reference}.pickle")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_durably(path, lambda out: out.write(blob))
            put(made)
            core.catalog_log.record({"do": "create_function", "definition": to_json(definition)})
            self._tidy()
            self.changed()
        return f"function {low} registered"

    def drop(self, name: str) -> str:
        """See `Pond.drop_function`."""
        core = self.core
        with core.lock:
            found = core.catalog.functions.get(name.lower())
            if found is None:
                raise QueryError(f"there is no function '{name}' that was registered")
            self._refuse_used(found, "drop them first")
            core.catalog_log.record({"do": "drop_function", "name": found.name})
            self._tidy()
            self.changed()
        return f"function {found.name} dropped"

    def _tidy(self) -> None:
        """Remove from the pond's folder what the catalog has no longer.

        Not while an epoch runs, or is to be repeated: its queries are those of the catalog from when it was proposed,
        and workers read their functions when they first need them. Then the next call does it.
        """
        core = self.core
        folder = os.path.join(core.path, "functions")
        if core.epochs.in_flight is not None or not os.path.isdir(folder):
            return
        kept = {d.reference for d in core.catalog.functions.values()}
        # Reduction functions lie there, too.
        kept |= {os.path.basename(file).removesuffix(".pickle") for file in core.catalog.reductions.values()}
        for name in os.listdir(folder):
            if name.endswith(".pickle") and name.removesuffix(".pickle") not in kept:
                withdraw(core.path, name.removesuffix(".pickle"))

    def _refuse_used(self, definition: FunctionDefinition, advice: str) -> None:
        (users,) = users_of(self.core, [definition.reference])
        if users:
            more = f" and {len(users) - 10} more" if len(users) > 10 else ""
            used = f"{', '.join(users[:10])}{more}"
            raise QueryError(f"function '{definition.name}' is used by {used}; {advice}")


def _is_callable(name: str) -> bool:
    """Whether a name with parentheses behind it is read as a call: not so SELECT, CAST or ISTREAM."""
    try:
        (statement,) = parse(f"SELECT {name}(a) FROM s")
    except StatementError:
        return False
    item = statement.select.tree.expressions[0] if isinstance(statement, Select) else None
    return isinstance(item, exp.Anonymous) and item.name == name


def _type(name: str, kind: str) -> str:
    """A type as DuckDB writes it. Raises: QueryError for what is none."""
    if not re.fullmatch(r"[A-Za-z][\w ]*(\(\s*\d+\s*(,\s*\d+\s*)?\))?(\[\])?", kind, re.ASCII):
        raise QueryError(f"function '{name}': '{kind}' is no type that functions take or return")
    try:
        return describe(f"SELECT CAST(NULL AS {kind}) AS a")[0].type
    except Refused as refused:
        raise QueryError(f"function '{name}': '{kind}' is no type: {refused.reason}") from None


def _check_signature(name: str, function: Callable[..., Any], arguments: int) -> None:
    if not callable(function):
        raise QueryError(f"function '{name}' is no Python function: {function!r}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # one of C, which does not say
    try:
        signature.bind(*([None] * arguments))
    except TypeError as error:
        raise QueryError(f"function '{name}' is registered with {arguments} arguments: {error}") from None


class Functions:
    """What a pond offers of registered functions: a part of `Pond`."""

    _core: Core
    _functions: UserFunctions

    if TYPE_CHECKING:

        def _check(self) -> None:
            """Refuse to go on when the pond is closed or has failed; `Pond` does it."""

    def register_function(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        arguments: Sequence[str],
        returns: str = "BOOLEAN",
        vectorised: bool = False,
        cost: float | None = None,
    ) -> str:
        """Make a function of yours callable in queries; it is there again after a restart.

        Only who holds the pond itself can do so: the function is Python that runs in its process and its workers.

        Arguments:
            name: letters, digits and _; case does not matter. function: pure and deterministic. It is called with the
                values of a row; a row with NULL among its arguments gives NULL without a call. What it raises puts the
                row among the dead letters.
            arguments, returns: types as in SQL. vectorised: it is called with an Arrow array for each argument and
                gives an array (or a list, or of NumPy) of the same length.
            cost: microseconds that a row takes, about; the order of filters starts with it, and then measures.
        Returns: what there is to say.
        Raises: QueryError when the name cannot be one or is in use, a type is none, or it cannot be pickled.

            >>> import tempfile, millpond
            >>> with millpond.open(tempfile.mkdtemp(), executor="inline") as pond:
            ...     pond.register_function("odd", lambda n: n % 2 == 1, arguments=["BIGINT"])
            'function odd registered'
        """
        self._check()
        return self._functions.register(name, function, arguments, returns, vectorised, cost)

    def drop_function(self, name: str) -> str:
        """Forget a registered function. Raises: QueryError when there is none of that name, or queries call it."""
        self._check()
        return self._functions.drop(name)

    def functions(self) -> list[str]:
        """The registered functions as they are called: `match(VARCHAR, VARCHAR) -> BOOLEAN`."""
        self._check()
        return [d.signature for _, d in sorted(self._core.catalog.functions.items())]

    def plans(self, name: str) -> pa.Table:
        """The plan log of a query or derived stream with registered functions in its WHERE: when which order was
        chosen, and under which statistics.

        Returns: time, epoch, plan and under (filters in their new and former order), changed, rows (seen since the line
            before), statistics (by filter the share of rows that it passed where it stood), microseconds (that a row
            takes, by filter), reason.
        Raises: QueryError when there is none of that name.
        """
        self._check()
        found = self._core.catalog.query(name) or self._core.catalog.stream(name)
        if found is None:
            if self._core.register.by_name(name) is not None:
                raise QueryError(
                    f"'{name}' is a row query: its functions are asked about every row, in no order that changes"
                )
            raise QueryError(f"there is no window query, relation or stream '{name}'")
        return plan_table(self._core, found)
