"""What queries live through while rows come: pauses, restarts, upkeep, back-fills that take their time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import strategies as st

from millpond.engine.jobs.backfill_queue import Backfills
from tests.oracle import Case, Epoch, Script, StreamSpec, Table, trace
from tests.oracle.case import span
from tests.properties.harness import Pond
from tests.properties.streams import Drawn

LATE = pytest.mark.parametrize("late", ["drop", "revise"])

#: The sources have ended.
ENDED = Epoch((), ended=True)


@contextmanager
def held_back(held: list[bool]) -> Iterator[None]:
    """While the last of `held` is true, back-fills wait."""
    with pytest.MonkeyPatch.context() as patch:
        before = Backfills.waiting
        patch.setattr(Backfills, "waiting", lambda self: [] if held[-1] else before(self))
        yield


def pause_or_resume(data: st.DataObject, p: Pond, paused: bool, name: str = "q") -> bool:
    """Perhaps pause a query or, if it is paused, resume it; whether it is paused then."""
    if data.draw(st.booleans()):
        p.sql(f"ALTER QUERY {name} {'RESUME' if paused else 'PAUSE'}")
        return not paused
    return paused


def upkeep(data: st.DataObject, p: Pond) -> None:
    """Perhaps restart or maintain."""
    what = data.draw(st.sampled_from(["", "", "", "restart", "maintain"]))
    if what == "restart":
        p.restart()
    elif what == "maintain":
        p.pond.maintain()


def limited(case: Case, kept: int, name: str = "q", **more: str) -> str:
    """The statement that makes a query which late rows revise for so long, and no longer."""
    said = "".join(f", {option}='{value}'" for option, value in more.items())
    return f"CREATE QUERY {name} WITH (beyond='drop', revise_for='{span(kept).lower()}'{said}) AS {case.query()}"


def run_with_pauses(data: st.DataObject, p: Pond, epochs: Sequence[Epoch], queries: Mapping[str, str]) -> None:
    """Make queries (name to statement), which pause and go on while epochs run; in the end all have answered."""
    for statement in queries.values():
        p.sql(statement)
    paused = dict.fromkeys(queries, False)
    for epoch in epochs:
        paused = {name: pause_or_resume(data, p, there, name) for name, there in paused.items()}
        p.epoch(epoch)
        upkeep(data, p)
    if data.draw(st.booleans()):
        _resume(p, paused)
        paused = {}
    p.finish()
    _resume(p, paused)
    p.settle()


def _resume(p: Pond, paused: Mapping[str, bool]) -> None:
    for name, there in paused.items():
        if there:
            p.sql(f"ALTER QUERY {name} RESUME")


def run_with_back_fill(
    data: st.DataObject, p: Pond, spec: StreamSpec, epochs: Sequence[Epoch], statement: Callable[[dict[str, str]], str]
) -> int | None:
    """Run epochs, and make the query q before one of them, whose back-fill takes its time.

    Args:
        statement: of the query, by further options.

    Returns: the progress at which it was made, if it answers from then on; None: from the start.
    """
    born, since = data.draw(st.integers(0, len(epochs))), data.draw(st.sampled_from(["start", None]))
    held, paused = [True], False
    with held_back(held):
        for number, epoch in enumerate([*epochs, None]):
            if number == born:
                p.sql(statement({"since": since} if since else {}))
            elif number > born:
                held[-1] = held[-1] and data.draw(st.booleans())
                paused = pause_or_resume(data, p, paused)
            if epoch is not None:
                p.epoch(epoch)
                upkeep(data, p)
        held[-1] = False
        _resume(p, {"q": paused})
        p.finish()
        p.settle()
    return None if since or not born else trace(Script(spec, tuple(epochs[:born])))[-1].after


def read_on(p: Pond, stream: Drawn, epochs: Sequence[Epoch]) -> Iterator[Table]:
    """The rows that have come after each epoch."""
    fed = 0
    for epoch in epochs:
        p.epoch(epoch)
        fed += len(epoch.rows)
        yield stream.table.only(stream.rows[:fed])
