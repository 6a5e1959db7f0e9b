"""What it costs to recompute a relation, before it is registered: estimated from what the archives hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from millpond.operators.plan_facts import PlanFacts
from millpond.progress import NEVER, StreamProgress
from millpond.tables import Segment
from millpond.types import (
    LatestRowsWindow,
    RangeWindow,
    RelationInput,
    RelationQuery,
    TumblingWindow,
    UnboundedWindow,
)
from millpond.types.plan_nodes import Fact

#: Instants at which a row of a window changes it: it enters, and it leaves.
_INSTANTS = 2


@dataclass(frozen=True)
class _Held:
    """What a window of a stream holds, and what an epoch brings of it: rows, and bytes as they lie in files."""

    stream: str
    rows: float
    size: float
    brought: float


def recompute_cost(facts: PlanFacts, query: RelationQuery) -> Fact:
    """The rows and bytes that an instant is made of, and the rows that an epoch may read."""
    held = [each for item in query.inputs if (each := _held(facts, item)) is not None]
    if not held:
        return Fact("cost", "nothing can be said before there are rows")
    parts = ", ".join(f"{_count(each.rows)} of {each.stream}" for each in held)
    rows, size, brought = (sum(values) for values in zip(*((e.rows, e.size, e.brought) for e in held), strict=True))
    return Fact(
        "cost",
        f"about {_count(rows)} rows at each instant ({parts}; {_count(size)} bytes of files); an epoch brings about"
        f" {_count(brought)} rows, which is up to {_count(_INSTANTS * brought)} instants and"
        f" {_count(_INSTANTS * brought * rows)} rows read",
    )


def _held(facts: PlanFacts, item: RelationInput) -> _Held | None:
    """None: the stream has no rows."""
    stream = facts.catalog.stream(item.stream)
    files, _ = facts.archives.get(stream.id, ((), None)) if stream is not None else ((), None)
    total = sum(f.rows for f in files)
    if stream is None or not total:
        return None
    now = facts.published.progress.get(str(stream.id), StreamProgress()).high
    rows = _rows(item, files, total, max(f.high for f in files) if now <= NEVER else now)
    epochs = max(f.last_epoch for f in files) - min(f.first_epoch for f in files) + 1
    return _Held(item.stream, rows, sum(f.size for f in files) * rows / total, total / epochs)


def _rows(item: RelationInput, files: Sequence[Segment], total: int, now: int) -> float:
    """How many rows a window holds now; of a file that lies in it in part, that part."""
    match item.window:
        case RangeWindow() | TumblingWindow() as window:
            since = window.since(now)
            return sum(f.rows * _share(f, since, now) for f in files)
        case LatestRowsWindow(rows=rows, partition=partition):
            return total if partition else min(total, rows)
        case UnboundedWindow():
            return total
        case _:
            assert_never(item.window)


def _share(file: Segment, since: int, now: int) -> float:
    inside = min(file.high, now) - max(file.low, since) + 1
    return max(0.0, min(1.0, inside / (file.high - file.low + 1)))


def _count(value: float) -> str:
    return f"{max(1, round(value)) if value > 0 else 0:,}"
