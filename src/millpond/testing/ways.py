"""The ways to run a case: rewritings of its records that must not change any expected row.

`straight` runs a case as written; `row-per-epoch` gives each ingested row and each file an epoch of its own; `restart`
closes and reopens the pond in the middle and at every epoch and drain; `shuffled` permutes rows within the disorder
that the case announces by `shuffle`, cut into epochs of three rows; `backfill` registers each query only just before
it is first asked, with `since='start'`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

from millpond.testing.case_records import Drain, Epoch, File, Ingest, Query, Record, Restart, SltCase, Statement, Tick
from millpond.testing.streams import event_time_order

_CREATE = re.compile(r"^\s*create\s+(?:or\s+replace\s+)?query\s+(?:if\s+not\s+exists\s+)?\"?(\w+)\"?", re.I)


def plan(case: SltCase, way: str) -> list[Record]:
    """The records that a way runs, in order. Raises ValueError for an unknown way.

    >>> from millpond.testing.case_records import parse_case
    >>> case = parse_case("ingest s\\nts:s,v\\n1,2\\n2,3\\n\\ndrain\\n")
    >>> [type(r).__name__ for r in plan(case, "row-per-epoch")]
    ['Ingest', 'Epoch', 'Ingest', 'Epoch', 'Drain']
    """
    if way not in WAYS:
        raise ValueError(f"unknown way '{way}'; known: {', '.join(WAYS)}")
    return WAYS[way](case, [r for r in case.records if r.runs(way)])


def _straight(case: SltCase, records: list[Record]) -> list[Record]:
    return records


def _row_per_epoch(case: SltCase, records: list[Record]) -> list[Record]:
    out: list[Record] = []
    for record in records:
        if isinstance(record, Ingest):
            for row in record.rows:
                out += [replace(record, rows=(row,)), Epoch(record.line)]
        else:
            out.append(record)
            if isinstance(record, File):
                out.append(Epoch(record.line))
    return out


def _restart(case: SltCase, records: list[Record]) -> list[Record]:
    out: list[Record] = []
    for i, record in enumerate(records):
        if isinstance(record, (Epoch, Drain)) or (records and i == len(records) // 2):
            out.append(Restart(record.line))
        out.append(record)
    return out


def _shuffled(case: SltCase, records: list[Record]) -> list[Record]:
    chance = random.Random(0)
    out: list[Record] = []
    at = 0
    while at < len(records):
        record = records[at]
        if not isinstance(record, Ingest):
            out.append(record)
            at += 1
            continue
        # Items that follow each other without anything between are one pool; partitions and streams stay apart.
        end = at
        while end < len(records) and isinstance(records[end], Ingest) and _same(records[end], record):
            end += 1
        rows = tuple(r for i in records[at:end] if isinstance(i, Ingest) for r in i.rows)
        order = event_time_order(record.header, rows, case.shuffle or 0, chance)
        for cut in range(0, len(rows), 3):
            out += [replace(record, rows=tuple(rows[i] for i in order[cut : cut + 3])), Epoch(record.line)]
        at = end
    return out


def _same(one: Record, other: Ingest) -> bool:
    return isinstance(one, Ingest) and (one.stream, one.header, one.partition) == (
        other.stream,
        other.header,
        other.partition,
    )


def _backfill(case: SltCase, records: list[Record]) -> list[Record]:
    waiting: dict[str, Statement] = {}
    out: list[Record] = []

    def register(name: str) -> None:
        """The query of a name, behind those whose answers it reads."""
        record = waiting.pop(name)
        for each in [n for n in waiting if n in _sources(record.sql)]:
            register(each)
        out.extend((record, Settle(record.line)))

    for record in records:
        created = _created(record)
        if isinstance(record, Statement) and created is not None and created not in waiting:
            plain = _of_rows(record.sql) and not _sources(record.sql) & waiting.keys()
            waiting[created] = record if plain else replace(record, sql=with_since(record.sql))
            continue
        if isinstance(record, (Query, Statement)):
            words = _words(record.sql)
            everything = bool(words & {"show", "drop", "alter"}) and isinstance(record, Query | Statement)
            for name in [n for n in waiting if n in words or (everything and "synopses" not in words)]:
                if name in waiting:
                    register(name)
        out.append(record)
    while waiting:
        register(next(iter(waiting)))
    return out


def _words(sql: str) -> set[str]:
    return {word.lower() for word in re.findall(r"\w+", sql)}


def _sources(sql: str) -> set[str]:
    """The names behind FROM and JOIN."""
    return {word.lower() for word in re.findall(r"\b(?:from|join)[\s(]+(\w+)", sql, re.I)}


class Settle(Drain):
    """Run what there is to do, back-fill included, without draining sources again."""


def _created(record: Record) -> str | None:
    match = _CREATE.match(record.sql) if isinstance(record, Statement) and record.error is None else None
    return match.group(1).lower() if match else None


def _of_rows(sql: str) -> bool:
    """Whether a CREATE QUERY is about rows: it has no window, and sees old data without being told to."""
    return re.search(r"\[\s*[a-z]|\bdescriptor\s*\(", sql, re.I) is None


def with_since(sql: str) -> str:
    """A CREATE QUERY with `since='start'` among its options, unless it says `since` itself.

    >>> with_since("CREATE QUERY q AS SELECT count(*) FROM s [RANGE 1 MINUTE];")
    "CREATE QUERY q AS SELECT count(*) FROM s [RANGE 1 MINUTE] WITH (since='start')"
    >>> with_since("CREATE QUERY q AS SELECT 1 FROM s WITH (empty='report')")
    "CREATE QUERY q AS SELECT 1 FROM s WITH (since='start', empty='report')"
    """
    text = sql.rstrip().removesuffix(";").rstrip()
    options = re.search(r"\bwith\s*\(", text, re.I)
    if options is None:
        return f"{text} WITH (since='start')"
    if re.search(r"\bsince\s*=", text[options.end() :], re.I):
        return text
    return f"{text[: options.end()]}since='start', {text[options.end() :]}"


def applies(case: SltCase, way: str) -> bool:
    """Whether a case may be run that way: as its `ways` say, and `shuffled` only where `shuffle` allows it."""
    if way == "shuffled" and case.shuffle is None:
        return False
    if case.ways is not None:
        return way in case.ways
    if way == "backfill":
        return any(_created(r) for r in case.records)
    if way == "row-per-epoch":
        return any(isinstance(r, (Ingest, File)) for r in case.records)
    return way != "restart" or any(isinstance(r, (Epoch, Drain, Tick)) for r in case.records)


WAYS: dict[str, Callable[[SltCase, list[Record]], list[Record]]] = {
    "straight": _straight,
    "row-per-epoch": _row_per_epoch,
    "restart": _restart,
    "shuffled": _shuffled,
    "backfill": _backfill,
}
