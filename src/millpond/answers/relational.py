"""Relations of CQL when somebody asks: R(τ) from the archive, ad hoc streams of changes, and what EXPLAIN says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.answers.describe.explain_filters import filter_lines
from millpond.answers.describe.explain_joins import graph_lines, join_lines, pair_lines
from millpond.answers.describe.tables import table_line
from millpond.answers.describe.work import work_lines
from millpond.answers.expired_history import check_reach
from millpond.answers.row_queries.moments import Inputs, now_of, progress_of, record_of
from millpond.archive.planning.scans import Scan, described
from millpond.catalog import Standing, Store
from millpond.catalog.unions import late_of
from millpond.engine.core import Core
from millpond.functions import display
from millpond.manifests.records import Published, QueryProgress
from millpond.operators.pairs.advance import all_pairs
from millpond.operators.relation.advance import known_of
from millpond.operators.relation.table_use import version_at
from millpond.operators.relational.history import InputReader
from millpond.operators.relational.readers import FAULTS, Input
from millpond.progress import FOREVER, NEVER, StreamProgress
from millpond.relations import Known, answers, shown, snapshot, spare_of, stretches
from millpond.sources.tables.versions import table_version
from millpond.support.errors import QueryError
from millpond.synopses import connection, query_table
from millpond.synopses.finish import empty_answers
from millpond.synopses.tolerance import one_line
from millpond.types import (
    HOLDS,
    Column,
    Driven,
    Elements,
    Grouped,
    Joined,
    PairsQuery,
    QueryOptions,
    Recomputed,
    RelationalQuery,
    RelationInput,
    RelationQuery,
    StreamDefinition,
    TableDefinition,
)
from millpond.types.as_of import AsOf
from millpond.types.reduction_forms import reduction_text
from millpond.types.relation_queries import are_together

#: Rows that a window may hold when somebody asks for a relation: they are read in the pond's process.
INPUT_ROWS = 20_000_000


def invoke_relation(core: Core, standing: Standing, as_of: AsOf = None) -> pa.Table:
    """R(τ) of a relational query: at, the select list, final (whether progress has passed τ).

    Arguments:
        as_of: None: τ is NOW, the largest event time admitted. 'progress': τ is the last final instant.
            ('timestamp', t): τ is t, with all that is known today. ('epoch', n): NOW when epoch n was published.
    """
    query = standing.relational
    inputs = _inputs(core, query)
    now, published = _moment(core, inputs, as_of)
    columns = [Column("at", "TIMESTAMP"), *(Column(o.name, o.type) for o in query.select), Column("final", "BOOLEAN")]
    if now is None:
        return empty_answers(connection(), columns)
    for item in query.inputs:
        streams = [s for name in item.names if (s := core.catalog.stream(name)) is not None]
        begin = now - item.window.range if item.window.kind == "range" else None
        begin = _since(query, now) - item.window.range if isinstance(query, PairsQuery) else begin
        check_reach(core, streams, begin, now, item.reduce is not None, files=True)
    reader = InputReader(core.archives, query, published, most=INPUT_ROWS, live_from=standing.first_epoch)
    final = "true" if progress_of(core.published, inputs) > now else "false"
    shown_at = f'make_timestamp({now}) AS "at"'
    if isinstance(query, PairsQuery):
        found, shown_at = _pairs_at(reader, query, now), 'make_timestamp(_at) AS "at"'
    else:
        found = _at(core, reader, query, now, versions=_versions(core, standing, published, now))
    sql = f"SELECT {shown_at}, {_outputs(query)}, {final} AS final FROM f ORDER BY ALL"
    return _told(query_table(connection(), sql, f=found), reader.scans)


def _told(table: pa.Table, scans: Sequence[Scan]) -> pa.Table:
    """An answer that tells what reduced scans it was made of: of the first one, with what all of them read."""
    if not scans:
        return table
    first, *others = scans
    for other in others:
        first.counters.add(other.counters)
        first.rows += other.rows
        first.stretches += other.stretches
    return described(table, first)


def relation_moment(
    core: Core, published: Published, standing: Standing, as_of: AsOf
) -> tuple[int, int, int | None, int | None, bool]:
    """now, progress, begin, end, final of an invocation, as an `Answer` has them."""
    inputs = _inputs(core, standing.relational)
    now, _ = _moment(core, inputs, as_of)
    progress = progress_of(published, inputs)
    return (NEVER if now is None else now), progress, now, now, now is not None and progress > now


def current_relation(core: Core, standing: Standing) -> pa.Table:
    """R at the last final instant: what `SELECT … FROM query` sees of a relation."""
    query = standing.relational
    assert isinstance(query, RelationQuery)  # pairs are no relation
    known = core.published.queries.get(str(standing.id), QueryProgress())
    if known.closed <= NEVER:
        return empty_answers(connection(), [Column(o.name, o.type) for o in query.select])
    last = max((_end(core, i, core.published) for i in query.inputs), default=NEVER)
    instant = known.closed - 1 if known.closed < FOREVER else last
    reader = InputReader(core.archives, query, core.published, most=INPUT_ROWS, live_from=standing.first_epoch)
    versions = _versions(core, standing, core.published, instant)
    found = _at(core, reader, query, instant, standing.definition.options, versions)
    return query_table(connection(), f"SELECT {_outputs(query)} FROM f ORDER BY ALL", f=found)


def select_relational(core: Core, query: RelationalQuery) -> pa.Table:
    """An ad hoc SELECT of CQL: the relation as it is NOW, or its stream of changes up to NOW.

    Raises: QueryError when it cannot be evaluated.
    """
    with core.pinned():  # what it probes is read while it is evaluated
        return _select(core, query)


def _select(core: Core, query: RelationalQuery) -> pa.Table:
    published = core.published
    now = now_of(published, _inputs(core, query))
    outputs = [Column(o.name, o.type) for o in query.select]
    reader = InputReader(core.archives, query, published, most=INPUT_ROWS)
    if isinstance(query, RelationQuery) and not query.makes_stream:
        if now is None:
            now = -FOREVER  # the relation over nothing
        found = _at(core, reader, query, now)
        sql = f"SELECT {_outputs(query)} FROM f ORDER BY ALL"
        return _told(query_table(connection(), sql, f=found), reader.scans)
    paired = isinstance(query, PairsQuery)  # pairs do not wait for the stream that is behind
    if now is None and not paired:
        return empty_answers(connection(), [Column("at", "TIMESTAMP"), *outputs])
    inputs = reader.read(NEVER, None if paired else now)
    try:
        if isinstance(query, PairsQuery) or now is None:
            assert isinstance(query, PairsQuery)
            found = all_pairs(connection(), query, inputs, _bounds(core, published, query))
        else:
            found = answers(connection(), query, _contents(query, inputs, None), _tables(core, query), NEVER, now + 1)
        zeros = pa.array(np.zeros(found.num_rows, np.int64))
        table = shown(connection(), query, found.append_column("_revision", zeros))
    except FAULTS as error:
        raise QueryError(f"the query cannot be answered: {one_line(error)}") from error
    return _told(table.drop_columns(["revision", "op"]), reader.scans)


def _bounds(core: Core, published: Published, query: RelationalQuery) -> tuple[int, int]:
    """How far the two inputs of pairs are, each by itself; an idle one is as far as the other."""
    found = []
    for item in query.inputs:
        streams = [s for name in item.names if (s := core.catalog.stream(name)) is not None]
        states = [published.progress.get(str(s.id), StreamProgress()) for s in streams]
        awake = [s.bound for s in states if not s.idle]
        found.append((min(awake) if awake else max(s.bound for s in states), not awake))
    other = min((bound for bound, idle in found if not idle), default=max(bound for bound, _ in found))
    first, second = (max(bound, other) if idle else bound for bound, idle in found)
    return first, second


def _inputs(core: Core, query: RelationalQuery) -> Inputs:
    """The streams that a relation is over, unions together."""
    found: list[StreamDefinition | Sequence[StreamDefinition]] = []
    for item in query.inputs:
        streams = [s for name in item.names if (s := core.catalog.stream(name)) is not None]
        found += [streams] if item.feeds else streams
    return found


def _moment(core: Core, streams: Inputs, as_of: AsOf) -> tuple[int | None, Published]:
    """The instant that is asked about, and the epoch whose rows are seen."""
    published = core.published
    if as_of is None:
        return now_of(published, streams), published
    if as_of == "progress":
        progress = progress_of(published, streams)
        if progress >= FOREVER:
            return now_of(published, streams), published
        return (progress - 1 if progress > NEVER else None), published
    kind, value = as_of
    if kind == "timestamp":
        return value, published
    record = record_of(core, published, value)
    return now_of(record, streams), record


def _at(
    core: Core,
    reader: InputReader,
    query: RelationQuery,
    instant: int,
    options: QueryOptions | None = None,
    versions: Mapping[str, int] | None = None,
) -> pa.Table:
    """R(τ), columns c0, c1, …

    Arguments:
        options: late rows count as they do for a standing query; None: like all others.
        versions: of the tables that it reads, by id; those that are not there are read as they are now.
    """
    with core.pinned():
        inputs = reader.read(instant, instant)
        try:
            contents = _contents(query, inputs, options)
            return snapshot(connection(), query, contents, _tables(core, query, versions), instant)
        except FAULTS as error:
            raise QueryError(f"the query cannot be answered: {one_line(error)}") from error


def _since(relation: PairsQuery, now: int) -> int:
    """Where the window of a stream of pairs begins that ends at `now`: of its streams' windows the longer counts."""
    window = max((i.window for i in relation.inputs), key=lambda w: w.range)
    return now - ((now - window.origin) % window.range if window.kind == "tumbling" else window.range)


def _pairs_at(reader: InputReader, query: PairsQuery, now: int) -> pa.Table:
    """The pairs of the window that ends at `now`, as they are known now: columns `_at`, c0, c1, …

    Whatever comes later, a row has no partner yet when there is none up to `now`.
    """
    since = _since(query, now)
    with reader.archives.pinned():
        inputs = reader.read(since, now)
        try:
            found = all_pairs(connection(), query, inputs, (FOREVER, FOREVER))
        except FAULTS as error:
            raise QueryError(f"the query cannot be answered: {one_line(error)}") from error
    return found.filter(pc.and_(pc.greater_equal(found["_at"], since), pc.greater(found["_n"], 0)))


def _contents(query: RelationQuery, inputs: Sequence[Input], options: QueryOptions | None) -> list[Known]:
    found: list[Known] = []
    for item, each in zip(query.inputs, inputs, strict=True):
        spare = FOREVER
        if options is not None:
            spare = 0 if each.late == "drop" else spare_of(query, options)
        found.append(known_of(connection(), query, item, each, spare))
    return found


def _tables(core: Core, relation: RelationalQuery, versions: Mapping[str, int] | None = None) -> dict[str, pa.Table]:
    from millpond.answers.table_selects import relation_of

    found = {}
    for each in relation.tables:
        definition = core.catalog.lookup(each.name) if each.kind == "table" else None
        if versions and isinstance(definition, TableDefinition) and str(definition.id) in versions:
            found[each.alias] = table_version(core.path, definition, versions[str(definition.id)])
        else:
            found[each.alias] = relation_of(core, each)
    return found


def _versions(core: Core, standing: Standing, published: Published, instant: int) -> Mapping[str, int]:
    """The versions of tables that an instant of a standing query is looked at with: those it was reported with."""
    known = core.published.queries.get(str(standing.id), QueryProgress())
    return version_at(known, instant) or published.versions


def _outputs(query: RelationalQuery) -> str:
    names = [o.name.replace('"', '""') for o in query.select]
    return ", ".join(
        f'CAST(c{n} AS {o.type}) AS "{name}"' for n, (o, name) in enumerate(zip(query.select, names, strict=True))
    )


def _end(core: Core, item: RelationInput, published: Published) -> int:
    streams = [s for name in item.names if (s := core.catalog.stream(name)) is not None]
    high = max((published.progress[str(s.id)].high for s in streams if str(s.id) in published.progress), default=NEVER)
    if high <= NEVER:
        return NEVER
    return high + (item.window.range + 1 if item.window.kind == "range" else 0)


def explain_relational(
    core: Core, query: RelationalQuery, standing: Standing | None, analyze: bool = False
) -> pa.Table:
    """How a relational query is answered, a line a row; `analyze`: and what that took in the last epochs."""
    from millpond.answers.describe.explain_windows import duration, open_text

    words = {None: "a relation, defined at every instant", "istream": "ISTREAM: rows that enter it", "dstream":
             "DSTREAM: rows that leave it", "rstream": "RSTREAM: all of it, again and again", "pairs":
             "PAIRS: a stream of joined rows, each as soon as it is certain"}  # fmt: skip
    lines = [f"CQL query: {words['pairs' if isinstance(query, PairsQuery) else query.operator]}"]
    for item in query.inputs:
        window = item.window
        if window.kind == "range":
            text = "now" if not window.range else f"range {duration(window.range)}, closed at both ends"
            if open_range := open_text(window.range):
                text = f"range {open_range}, open"
        elif window.kind == "tumbling":
            text = f"intervals of {duration(window.range)}"
        elif window.kind == "rows":
            text = f"the last {window.rows} rows" + (
                f" of each {', '.join(window.partition)}" if window.partition else ""
            )
        else:
            text = "unbounded"
        name = " UNION ALL ".join(item.names)
        lines.append(f"input {name}: {text}; keeps {', '.join(c.name for c in item.columns if c.name != HOLDS)}")
        if item.reduce is not None:
            whole = "" if standing is None else f"; rows from epoch {standing.first_epoch} on are live and whole"
            lines.append(f"reduce: {reduction_text(item.reduce)}{whole}")
        if item.where:
            lines.append(f"filter below the window: {item.where}")
        elif item.mark:
            lines.append(
                f"filter: {item.mark}; asked when a row comes and kept with it, since it chooses among the rows of the"
                " window and cannot go below it"
            )
        elif window.kind == "rows":
            lines.append("filters stay above the window: they do not commute with counting rows")
    lines += [table_line(core, t.name) for t in query.tables]
    lines += _plan_lines(core, query, standing is None)
    if standing is not None:
        catalog = core.catalog
        if isinstance(query, RelationQuery) and query.joined is not None:
            lines += join_lines(query, query.joined)
        for owner in dict.fromkeys(standing.inputs):
            lines += [split_line(core, catalog.stores[owner])] if split_line(core, catalog.stores[owner]) else []
            own = catalog.known_as(standing)
            others = sorted({n for q in catalog.users(owner) for n in catalog.known_as(q)} - set(own))
            lines.append(f"store {owner}, " + (f"shared with {', '.join(others)}" if others else "its own"))
        late = ", ".join(
            dict.fromkeys(late_of(catalog, spec) for spec in [catalog.stores[o].spec for o in standing.inputs])
        )
        spare = duration(spare_of(query, standing.definition.options))
        lines.append(f"late rows: {late}" + (f", for {spare} behind progress" if "revise" in late else ""))
        lines.append(
            f"status: {standing.status}{': ' + standing.reason if standing.reason else ''};"
            f" live from epoch {standing.first_epoch}"
        )
        lines += work_lines(core, standing) if analyze else []
        lines += filter_lines(core, standing, analyze)
    else:
        lines.append("ad hoc over the archive and live data up to now")
    return pa.table({"plan": pa.array([display(line) for line in lines])})


def _plan_lines(core: Core, query: RelationalQuery, adhoc: bool) -> list[str]:
    """What EXPLAIN says of how a query is answered."""
    if isinstance(query, PairsQuery):
        return pair_lines(query)
    match query.plan:
        case Elements():
            return ["plan: elements; a row's image enters and leaves with the row"]
        case Joined():
            joined = "plan: joined; a joined row enters with its last part and leaves with its first"
            return [joined, *graph_lines(query, query.plan.join, adhoc)]
        case Grouped():
            grouped = "plan: grouped; counts and sums follow from the joined rows that enter and leave"
            return [grouped, *graph_lines(query, query.plan.join, adhoc)]
        case Driven():
            return _probe_lines(core, query)
        case Recomputed() if query.lifted is None:
            return ["plan: recomputed, instant by instant (DuckDB cannot evaluate it for many instants at once)"]
        case Recomputed(reason):
            why = f" ({reason})" if reason else ""
            every = "plan: recomputed, at every instant at which a window changes, all instants of an epoch at once"
            return [f"{every}{why}"]
        case _:
            assert_never(query.plan)


def split_line(core: Core, store: Store) -> str:
    """What is said of the frequent keys of a store; '' where none is split."""
    keys = core.published.hot.get(store.owner)
    if not keys:
        return ""
    name = core.catalog.streams[store.spec.stream].name
    how = (
        "every shard has its rows" if store.deal == "copies" else f"its rows are dealt over the shards by {store.deal}"
    )
    if are_together(store.spread):
        return f"exchange: of {name}, {how}"
    return f"skew: of {name}, {store.spread} = {', '.join(sorted(keys.values()))} is frequent; {how}"


def _probe_lines(core: Core, query: RelationQuery) -> list[str]:
    """What EXPLAIN says of a query that looks the past up: how often, where, and what that reads now."""
    from millpond.answers.describe.explain_windows import duration, moment

    driver = next(i for i in query.inputs if i.alias == query.driver)
    lines = [f"plan: probed; at each instant at which {driver.stream} has rows, the past is looked up"]
    for item in query.inputs:
        probe, stream = query.probe(item.alias), core.catalog.stream(item.stream)
        if probe is None or stream is None:
            continue
        lines.append(f"past of {item.stream}: rows that meet {probe.condition}")
        leading = core.catalog.stream(driver.stream)
        now = None if leading is None else now_of(core.published, [[leading]])
        files = core.streams[stream.id].archive.segments
        if now is None or not files:
            continue
        low = now - item.window.range if item.window.kind == "range" else min(s.low for s in files)
        where = stretches(connection(), probe.may, low, now + 1, now, now)
        length = sum(high - start for start, high in where)
        lines.append(
            f"for rows of now, {moment(now)}: {len(where)} stretches of the past, {duration(length)} of"
            f" {duration(now + 1 - low)}; from {_first(where)} to {_last(where)}"
        )
        some = [s for s in files if any(s.high >= a and s.low < b for a, b in where)]
        window = [s for s in files if s.high >= low]
        lines.append(
            f"files that hold them: {len(some)} of {len(window)} in the window, {sum(s.size for s in some)} of"
            f" {sum(s.size for s in window)} bytes; of these, the row groups that do"
        )
    return lines


def _first(where: Sequence[tuple[int, int]]) -> str:
    from millpond.answers.describe.explain_windows import moment

    return moment(where[0][0]) if where else "nowhere"


def _last(where: Sequence[tuple[int, int]]) -> str:
    from millpond.answers.describe.explain_windows import moment

    return moment(where[-1][1]) if where else "nowhere"
