"""Derived streams in an epoch: answers and rows that become the input of the next one, and how far they reach.

What epoch N gives for a derived stream lies in files that its tasks wrote; `sources.derived_stream` takes them in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Catalog, Standing
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import Published
from millpond.operators.contract import Answering
from millpond.operators.filters.filter_orders import Screens
from millpond.progress import FOREVER, NEVER, StreamProgress
from millpond.sources.derived_stream import Reached, derived_folder, write_part
from millpond.sources.intake_log import Item
from millpond.synopses import connection, query_ordered
from millpond.synopses.partials.specs import as_declared, casts_of
from millpond.synopses.tolerance import bisect
from millpond.types import StreamDefinition, WindowQuery, columns_read
from millpond.types.stream_definitions import AnswerDerivation, RowDerivation
from millpond.windows import first_end_after


def answered(standing: Standing, closed: int) -> int:
    """A time that no first answer to come lies before, when a query has answered up to `closed`."""
    query = standing.definition.query
    if not isinstance(query, WindowQuery) or closed >= FOREVER or closed <= NEVER:
        return closed
    return first_end_after(query.window, closed)


def reached(
    catalog: Catalog, published: Published, stream: StreamDefinition, answering: Mapping[int, Answering]
) -> Reached | None:
    """How far the source of a derived stream is published; None: nothing of it counts yet.

    Args:
        answering: what answers each query, by id.
    """
    derivation = stream.derived
    assert derivation is not None
    if published.epoch < derivation.first_epoch - 1:
        return None
    if isinstance(derivation, AnswerDerivation):
        standing = catalog.queries.get(derivation.query)
        progress = published.queries.get(str(derivation.query), QueryProgress())
        if standing is None or standing.status == "quarantined":
            return Reached(published.epoch, NEVER)
        query, asked = standing.definition.query, answering[standing.id]
        groups = asked.answered_groups(query, progress) if stream.options.marked_by else {}
        further = {group: answered(standing, closed) for group, closed in groups.items()}
        return Reached(published.epoch, answered(standing, progress.closed), further)
    source = published.progress.get(str(derivation.sources[0]), StreamProgress())
    return Reached(published.epoch, source.bound, source.groups if stream.options.marked_by else {})


def followers(catalog: Catalog, stream: int) -> list[int]:
    """A stream and those that are derived from its rows, near ones first: their progress is its own."""
    found = [stream]
    for each in found:
        found += [s.id for s in catalog.streams.values() if s.goes_with_source and each in s.sources]
    return found


def takeable(stream: StreamDefinition, items: list[Item]) -> list[Item]:
    """The items that one epoch may take.

    Where late rows are dropped, an epoch takes no more of a derived stream than an epoch of its source gave: rows of
    one epoch are never late for each other, but these have to be.
    """
    if stream.derived is None or stream.options.late != "drop":
        return items
    last = next((n for n, item in enumerate(items) if item.bound is not None), len(items))
    return items[: last + 1]


def bounds_of(taken: Mapping[int, Sequence[Item]]) -> dict[str, int]:
    """Per derived stream, the progress that is reached with the items that an epoch takes."""
    found = {s: [i.bound for i in items if i.bound is not None] for s, items in taken.items()}
    return {str(s): max(bounds) for s, bounds in found.items() if bounds}


def group_bounds_of(taken: Mapping[int, Sequence[Item]]) -> dict[str, dict[str, int]]:
    """As `bounds_of`, of groups that are further."""
    found: dict[str, dict[str, int]] = {}
    for stream, items in taken.items():
        for item in items:
            if item.groups:  # later ones are further
                found[str(stream)] = {**found.get(str(stream), {}), **item.groups}
    return found


# -- rows of a stream --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Passed:
    """Rows for a derived stream, and the rows of its source on which an expression fails, with `_reason`."""

    rows: pa.Table
    failed: pa.Table | None = None


def pass_rows(
    source: StreamDefinition, stream: StreamDefinition, segment: pa.Table, epoch: int, screens: Screens | None = None
) -> Passed | None:
    """The rows of `segment` that `stream` is made of, in their order; None when it does not read `source`.

    Arguments:
        screens: of the task, for conditions with registered functions.
    """
    derivation = stream.derived
    if not isinstance(derivation, RowDerivation) or source.id not in derivation.sources:
        return None
    if derivation.first_epoch > epoch or not segment.num_rows:
        return None
    screen = None if screens is None else screens.of_stream(source, stream)
    if screen is None:
        return project(source, derivation, segment)
    try:
        screened = screen.screen(segment)
    except duckdb.Error:
        return project(source, derivation, segment)  # too many rows fail to look for each: it puts pieces aside
    passed = project(source, replace(derivation, where=None), screened.rows)
    failed = [t for t in (screened.failed, passed.failed) if t is not None]
    return Passed(passed.rows, pa.concat_tables(failed) if failed else None)


def project(source: StreamDefinition, derivation: RowDerivation, segment: pa.Table) -> Passed:
    """The rows that pass the condition, with the columns of the SELECT list. Failing rows are found by bisection."""
    sql = _projection(source, derivation)
    parted = bisect(lambda piece: query_ordered(connection(), sql, __rows=piece), segment)
    rows = pa.concat_tables(parted.made, promote_options="permissive") if parted.made else pa.table({})
    return Passed(rows, parted.failed)


def _projection(source: StreamDefinition, derivation: RowDerivation) -> str:
    outputs = [o.sql for o in derivation.select]
    rows = as_declared(
        "__rows", casts_of(source), columns_read(derivation.where, *(o.expression for o in derivation.select))
    )
    where = f" WHERE {derivation.where}" if derivation.where else ""
    return f"SELECT {', '.join(outputs)} FROM {rows}{where}"


def write_passed(pond: str, stream: StreamDefinition, epoch: int, task: int, rows: pa.Table) -> str | None:
    """Write rows for a derived stream where its source finds them; the file's name, None without rows."""
    return write_part(derived_folder(pond, stream), epoch, task, rows)


# -- answers of a query ------------------------------------------------------------------------------------------------


def write_answers(pond: str, stream: StreamDefinition, epoch: int, number: int, tables: Sequence[pa.Table]) -> int:
    """Write answers of a query for a stream that is made of them, as a file of that number; how many rows there are."""
    assert stream.derived is not None
    change = {"forward": lambda t: t, "retract": _taken_back}.get(stream.derived.revisions, _first_answers)
    kept = [change(t) for t in tables]
    kept = [t.select([c.name for c in stream.columns]) for t in kept if t.num_rows]
    if kept:
        write_passed(pond, stream, epoch, number, pa.concat_tables(kept, promote_options="permissive"))
    return sum(t.num_rows for t in kept)


def _taken_back(answers: pa.Table) -> pa.Table:
    """Answers with those that others replace as rows that take them back."""
    if "op" not in answers.column_names:
        return answers.append_column("op", pa.array(["+"] * answers.num_rows, pa.string()))
    place = answers.column_names.index("op")
    op = pc.if_else(pc.equal(answers["op"], "="), "-", answers["op"])
    return answers.set_column(place, "op", op)


def _first_answers(answers: pa.Table) -> pa.Table:
    if "revision" not in answers.column_names:
        return answers
    revision = np.asarray(answers["revision"].to_numpy())
    first = revision == 0
    return answers if first.all() else answers.filter(pc.and_(pa.array(first), pc.equal(answers["op"], "+")))
