"""The answers of a standing query so far: all revisions, or the latest of each (window, group)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from millpond.archive.open_archives import Archives
from millpond.catalog import Standing
from millpond.engine.pond_view import PondView
from millpond.manifests.places import query_owner, results_folder
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.registry import answering_kind
from millpond.support.errors import QueryError
from millpond.support.sql import quote
from millpond.synopses import connection, query_table
from millpond.synopses.enums import put_together
from millpond.synopses.finish import empty_answers, identity
from millpond.tables import Segment, read_chunks
from millpond.tables.chunks import read_heads
from millpond.types import NUMBER, STATUS, Column, QueryDefinition

#: Rows of answers that are read at once.
MOST_ROWS = 50_000_000


def segments_of(archives: Archives, after: int, until: int) -> list[Segment]:
    """Result files with answers published after epoch `after`, up to `until`, oldest first."""
    chosen = [s for s in archives.storage.results.segments if s.last_epoch > after and s.first_epoch <= until]
    return sorted(chosen, key=lambda s: (s.first_epoch, s.path))


def read_log(
    pond: PondView,
    standing: Standing,
    after: int = 0,
    until: int | None = None,
    windows: tuple[int, int] | None = None,
) -> pa.Table:
    """Every reported row: the query's columns, hidden `_k*`, `op`, `_epoch`, `_backfilled`.

    Raises: QueryError when these are more rows than are read at once (`MOST_ROWS`), or they cannot be read.

    Arguments:
        after, until: only what was published after epoch `after`, up to epoch `until` (default: the last published).
        windows: only of windows that end behind the first and not behind the second (microseconds).
    """
    until = pond.published.epoch if until is None else until
    with pond.unreadable.watching(standing.id, standing.definition.name):
        return _read_log(pond.archives, standing, after, until, windows)


def _read_log(
    archives: Archives, standing: Standing, after: int, until: int, windows: tuple[int, int] | None
) -> pa.Table:
    owner = query_owner(standing.id)
    tables: list[pa.Table] = []
    count = 0
    with archives.pinned():
        for segment in segments_of(archives, after, until):
            if windows is not None and (segment.high <= windows[0] or segment.low > windows[1]):
                continue
            adopted = segment.last_epoch if segment.path.startswith("b") else None

            def wanted(owner: str, kind: str, epoch: int, low: int, high: int, adopted: int | None = adopted) -> bool:
                if windows is not None and (high <= windows[0] or low > windows[1]):
                    return False
                return after < (epoch if adopted is None else adopted) <= until

            for chunk in read_chunks([os.path.join(results_folder(archives.path), segment.path)], {owner}, wanted):
                epoch = chunk.epoch if adopted is None else adopted
                rows = chunk.table if windows is None else _windows_in(chunk.table, windows)
                if rows.num_rows:
                    n = rows.num_rows
                    count += n
                    if count > MOST_ROWS:
                        raise _too_many(standing)
                    marks = [pa.array([epoch] * n, pa.int64()), pa.array([chunk.kind == "backfilled"] * n)]
                    tables.append(rows.append_column("_epoch", marks[0]).append_column("_backfilled", marks[1]))
    if tables:
        log = put_together(tables)
        if standing.definition.options.early is not None:
            log = _with_status(log)
        # What its back-fill did not find, or left out, is missing in all windows that need it, those closed later
        # included.
        known = archives.published.queries.get(str(standing.id), QueryProgress())
        return answering_kind(standing.definition.query).qualified(standing.definition, known, log)
    columns = [*log_columns(standing.definition), Column("_epoch", "BIGINT"), Column("_backfilled", "BOOLEAN")]
    return empty_answers(connection(), columns)


def _too_many(standing: Standing) -> QueryError:
    name = standing.definition.name
    when = standing.definition.query.end_column
    return QueryError(
        f"the answers of '{name}' that are asked for are more than {MOST_ROWS:,} rows, the most that are read at once; "
        f"ask for fewer (SELECT … FROM {name} WHERE {when} > TIMESTAMP '…'), or follow them: subscribe('{name}')"
    )


def end_column(answers: pa.Table) -> str:
    """The column that says when answers count: the window's end, or the instant of a relation."""
    return "at" if answers.column_names[0] == "at" else "window_end"


def _windows_in(table: pa.Table, windows: tuple[int, int]) -> pa.Table:
    """The answers of windows with after < end <= until, or of instants in that range."""
    end = table[end_column(table)].cast(pa.int64())
    return table.filter(pc.and_(pc.greater(end, windows[0]), pc.less_equal(end, windows[1])))


def _with_status(log: pa.Table) -> pa.Table:
    """The log with a status in every row: those without are of windows that progress had passed."""
    closed = pa.scalar("closed", pa.string())
    if STATUS not in log.column_names:
        return log.append_column(STATUS, pa.array(["closed"] * log.num_rows, pa.string()))
    at = log.column_names.index(STATUS)
    return log.set_column(at, STATUS, pc.fill_null(log[STATUS], closed))


def spans_of(archives: Archives, standing: Standing, after: int, until: int, most: int) -> Iterator[int]:
    """The epochs after < e <= until cut into spans of at most `most` answers (or one epoch); the last epoch of each."""
    if until - after > 1:
        counts: Counter[int] = Counter()
        with archives.pinned():
            for segment in segments_of(archives, after, until):
                path = os.path.join(results_folder(archives.path), segment.path)
                for _, epoch, rows in read_heads(path, query_owner(standing.id)):
                    counts[segment.last_epoch if segment.path.startswith("b") else epoch] += rows
        held = 0
        last = after
        for epoch in sorted(e for e in counts if after < e <= until):
            if held and held + counts[epoch] > most:
                yield last
                held = 0
            held, last = held + counts[epoch], epoch
    if until > after:
        yield until


def log_columns(definition: QueryDefinition) -> list[Column]:
    """The columns of a query's log: the answer's, among them the hidden identity, and op."""
    query = definition.query
    shown = list(definition.columns)
    hidden = [c for c in query.identity if c not in shown]
    width = [c.name for c in shown].index("revision")
    return [*shown[:width], *hidden, *shown[width:], Column("op", "VARCHAR")]


def order_terms(definition: QueryDefinition) -> str:
    """The order that rows of a query are delivered in: by window, then as the query says, then by all columns."""
    query = definition.query
    end = query.end_column
    if not query.keyed:
        # A row that is taken back comes before what takes its place.
        columns = [c for c in definition.columns if c.name not in (end, "revision")]
        return ", ".join([quote(end), "revision", "op DESC", *map(_ordered, columns)])
    names = {o.expression: _ordered(Column(o.name, o.type)) for o in query.select}
    terms = [t.by(names[t.expression]) for t in query.sorted_by if t.expression in names]
    first = [end, NUMBER.name] if query.numbered else [end]
    return ", ".join([*first, *terms, *map(_ordered, log_columns(definition)[2:])])


def _ordered(column: Column) -> str:
    """The column as ORDER BY needs it: the log holds ENUMs as texts, which have another order."""
    name = quote(column.name)
    return f"CAST({name} AS {column.type})" if "ENUM(" in column.type else name


def latest_answers(
    pond: PondView, standing: Standing, until: int | None = None, windows: tuple[int, int] | None = None
) -> pa.Table:
    """The latest revision per (window, group), vanished rows left out: `SELECT … FROM query`."""
    log = read_log(pond, standing, 0, until, windows)
    query = standing.definition.query
    if not query.keyed:
        return _latest_changes(standing.definition, log)
    keys = ", ".join([query.end_column, *identity(query)])
    shown = ", ".join(quote(c.name) for c in standing.definition.columns)
    revised = (
        query_table(connection(), "SELECT count(*) AS n FROM log WHERE revision > 0", log=log)["n"][0].as_py()
        if log.num_rows
        else 0
    )
    latest = (
        f"(SELECT * FROM log QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY revision DESC) = 1)"
        if revised
        else "log"
    )
    sql = f"SELECT {shown} FROM {latest} WHERE op = '+' ORDER BY {order_terms(standing.definition)}"
    return query_table(connection(), sql, log=log)


def _latest_changes(definition: QueryDefinition, log: pa.Table) -> pa.Table:
    """Every element as often as it holds: what was reported less what was taken back."""
    return query_table(connection(), latest_changes_sql(definition), log=log)


def latest_changes_sql(definition: QueryDefinition) -> str:
    """The SQL of `_latest_changes` over `log`: the query's columns, in order."""
    columns = [quote(c.name) for c in definition.columns if c.name != "revision"]
    shown = ", ".join(quote(c.name) for c in definition.columns)
    net = "sum(CASE op WHEN '+' THEN 1 ELSE -1 END)"
    sql = (
        f"SELECT {', '.join(columns)}, max(revision) FILTER (op = '+') AS revision, {net}::BIGINT AS __n"
        f" FROM log GROUP BY {', '.join(columns)} HAVING {net} > 0"
    )
    order = order_terms(definition).replace("op DESC, ", "")
    return f"SELECT {shown} FROM (SELECT *, unnest(range(__n)) FROM ({sql})) ORDER BY {order}"


def all_revisions(pond: PondView, standing: Standing, windows: tuple[int, int] | None = None) -> pa.Table:
    """The log: every revision of every row with its op, in the order of publication."""
    log = read_log(pond, standing, windows=windows)
    shown = ", ".join([*(quote(c.name) for c in standing.definition.columns), "op"])
    sql = f"SELECT {shown} FROM log ORDER BY _epoch, {order_terms(standing.definition)}"
    return query_table(connection(), sql, log=log)
