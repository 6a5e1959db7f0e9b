"""Methods of operators that raise, beside a query that has nothing to do with them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from millpond.operators.contract import Answering, Operator
from tests.operators.cases import Case
from tests.operators.driver import Driver
from tests.oracle.case import span

#: The name of the query that goes on.
BYSTANDER = "good"

#: Methods of the contract that are called about one operator; the others say what operators there are, and for whom.
METHODS = sorted(
    name
    for kind in (Operator, Answering)
    for name, member in vars(kind).items()
    if inspect.isfunction(member) and not name.startswith("_") and name != "users"
)


def with_bystander(case: Case) -> Case:
    """The same case with another query beside it."""
    text = f"SELECT count(*) AS n FROM {next(iter(case.streams))} [RANGE TUMBLING {span(3 * case.unit)}]"
    return replace(case, beside=f"CREATE QUERY {BYSTANDER} AS {text}")


def doomed_in(kind: type[Operator], driver: Driver) -> dict[str, set[str]]:
    """The operators of a kind that do not work for the bystander, and the names of the queries that fail with each."""
    found = [o for o in driver.operators if isinstance(o, kind)]
    found = [o for o in found if BYSTANDER not in {q.definition.name for q in o.users()}]
    return {o.owner: {q.definition.name for each in (o, *o.readers) for q in each.users()} for o in found}


@contextmanager
def told(kind: type[Operator], owners: Container[str], tell: Callable[[str, str], None]) -> Iterator[None]:
    """While it is open, a function is told each method that is called of some operators of a kind, and of which."""

    def wrapped(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(operator: Operator, *args: Any, **named: Any) -> Any:
            if operator.owner in owners:
                tell(name, operator.owner)
            made = method(operator, *args, **named)
            if name == "mapper" and made is not None and operator.owner in owners:
                for part in ("add", "finish"):
                    setattr(made, part, told_first(f"mapper.{part}", operator.owner, getattr(made, part)))
            return made

        return call

    def told_first(name: str, owner: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            tell(name, owner)
            return method(*args)

        return call

    with ExitStack() as stack:
        for name in METHODS:
            if (method := getattr(kind, name, None)) is not None:
                stack.enter_context(mock.patch.object(kind, name, wrapped(name, method)))
        yield
