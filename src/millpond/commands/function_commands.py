"""Registering Python functions that queries call, and forgetting them: checked, and recorded in the catalog."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from millpond.commands.planned import Ids, KeepFunction, Plan, Record
from millpond.commands.pond_facts import Facts
from millpond.functions.mergeable_states import lacks
from millpond.language import Select, parse
from millpond.language.builtins.allowed import AGGREGATES, REFUSED, RELATION_AGGREGATES, SCALARS, WINDOW_FUNCTIONS
from millpond.language.inference.duck import Refused, describe
from millpond.support.errors import QueryError, StatementError
from millpond.types import FunctionDefinition, to_json

#: What a name of the language is.
_TAKEN = SCALARS | AGGREGATES.keys() | RELATION_AGGREGATES | WINDOW_FUNCTIONS | REFUSED.keys()


@dataclass(frozen=True)
class NewFunction:
    """A function that is to be registered; see `Pond.register_function`."""

    name: str
    function: Callable[..., Any]
    arguments: Sequence[str]
    returns: str
    vectorised: bool
    cost: float | None
    aggregate: bool = False
    mergeable: bool = False


def register_function(facts: Facts, new: NewFunction) -> Plan:
    """Plan `Pond.register_function`.

    Raises:
        QueryError: the name cannot be one or is in use, or a type is none.
    """
    low, function = new.name.lower(), new.function
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", low, re.ASCII):
        raise QueryError(f"'{new.name}' cannot be a function's name; letters, digits and single _ between them can")
    if low in _TAKEN:
        raise QueryError(f"'{low}' is a function of the language; choose another name")
    if not _is_callable(low):
        raise QueryError(f"'{low}' is a word of the language and could not be called; choose another name")
    if isinstance(new.arguments, str):
        raise QueryError(f"function '{low}': arguments are a list of types, such as [{new.arguments!r}]")
    types = tuple(_type(low, kind) + "[]" * new.aggregate for kind in new.arguments)
    if new.mergeable:
        _check_steps(low, function)
    else:
        _check_signature(low, function, len(types))
    if not types:
        raise QueryError(f"function '{low}' takes nothing, and would give the same for every row")
    if new.cost is not None and not new.cost > 0:
        raise QueryError(f"function '{low}': cost is microseconds for a row, more than 0, not {new.cost}")
    if (old := facts.catalog.functions.get(low)) is not None:
        _refuse_used(facts, old, "drop them first, or choose another name")
    ids = Ids(facts)
    number = ids.take()
    reference = f"udf__{low}__{facts.opening[:8]}_{number}"
    returns = _type(low, new.returns)
    definition = FunctionDefinition(
        low, reference, types, returns, new.vectorised, new.cost, number, new.aggregate, new.mergeable
    )
    record = Record(({"do": "create_function", "definition": to_json(definition)},))
    what = "aggregate" if new.aggregate else "function"
    return Plan(f"{what} {low} registered", (KeepFunction(definition, function), record), ids.used)


def drop_function(facts: Facts, name: str) -> Plan:
    """Plan `Pond.drop_function`. Raises: QueryError when there is none of that name, or queries call it."""
    found = facts.catalog.functions.get(name.lower())
    if found is None:
        raise QueryError(f"there is no function '{name}' that was registered")
    _refuse_used(facts, found, "drop them first")
    return Plan(f"function {found.name} dropped", (Record(({"do": "drop_function", "name": found.name},)),))


def _refuse_used(facts: Facts, definition: FunctionDefinition, advice: str) -> None:
    users = facts.sight.users_of(definition.reference)
    if users:
        more = f" and {len(users) - 10} more" if len(users) > 10 else ""
        raise QueryError(f"function '{definition.name}' is used by {', '.join(users[:10])}{more}; {advice}")


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


def _check_steps(name: str, function: Any) -> None:
    if missing := lacks(function):
        raise QueryError(
            f"aggregate '{name}' is to merge, and has no {', '.join(missing)}: it needs add, merge and finish"
        )


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
