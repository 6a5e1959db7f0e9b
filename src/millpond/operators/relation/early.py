"""Early answers of relations: what the instants that progress has not passed would report now.

As in `early`, `early` of clock time lies between them, and they are made when rows came since. Instants up to the high
watermark are looked at. An answer is a bag, so rows are shown and taken back one by one, with `status = 'early'`: what
differs from what was shown last, as revisions of the instant. When progress passes an instant, what was shown of it is
taken back, and its answer is reported with `status = 'closed'`: whoever applies every row has each of them once, and
whoever reads closed answers only has never seen the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.operators.relation.relation_progress import Progress
from millpond.operators.relational.readers import Given
from millpond.operators.windowed.early import CLOSED, EARLY, OPEN, due
from millpond.progress import FOREVER, NEVER
from millpond.relations import difference, numbered, numbers_of, shown
from millpond.synopses import query_table
from millpond.tables import Chunk
from millpond.types import QueryOptions, RelationalQuery

#: (low, high) -> the answer of instants in that range.
Between = Callable[[int, int], pa.Table]


@dataclass(frozen=True)
class Report:
    """What an epoch reports of the instants that it passes, and of those that are open.

    bound: progress. found: the answer of the instants passed, as of `relations.answers`. opened: which of some answers
    are of instants that are not passed. answers: the rows to store.
    numbers: numbers of instants to remember. pending: the next instant at which something changes, if nothing comes.
    early: what is shown early now and was not, to be remembered. early_at, stirred: as of `RelationProgress`.
    """

    bound: int
    found: pa.Table | None
    opened: Callable[[pa.Table], npt.NDArray[np.bool_]]
    answers: pa.Table | None = None
    numbers: list[pa.Table] = field(default_factory=list)
    pending: int | None = None
    early: pa.Table | None = None
    early_at: int = NEVER
    stirred: bool = False


@dataclass(frozen=True)
class Speculation:
    """What an epoch needs for the early answers of a relational query.

    shown: instant -> what was shown early of instants from there on (chunks of kind `EARLY`: `_at`, `_sign`, c0, …,
        `_n`, to be added up).
    clock: the clock reading of the epoch. stirred: whether the epoch took rows of the query's streams.
    """

    shown: Callable[[int], Sequence[pa.Table]]
    clock: int
    stirred: bool

    def report(
        self,
        db: duckdb.DuckDBPyConnection,
        query: RelationalQuery,
        options: QueryOptions,
        progress: Progress,
        report: Report,
        between: Between,
        high: int,
        given: Given,
    ) -> Report:
        """The report with early answers, and with those that count numbered behind them.

        Args:
            progress: of the query, before the epoch. between: (low, high) -> the answer of instants in that range, with
                all that has come. high: the largest event time of the query's streams. given: as of `Advancing`.
        """
        low = max(progress.closed, progress.start)
        opens = max(report.bound, low)
        known = shown_early(db, query, self.shown(low), low)
        ended = still = None
        if known is not None:
            is_open = report.opened(known)
            ended, still = known.filter(pa.array(~is_open)), known.filter(pa.array(is_open))
        rows: list[pa.Table] = []
        numbers: list[pa.Table] = []
        closing = _closing(db, query, report.found, ended)
        if closing is not None:
            rows.append(_reported(db, query, closing, given, None))
            remembered = numbers_of(rows[-1])
            numbers.append(remembered.filter(pc.greater(remembered["revision"], 0)))
        stirred = progress.own.stirred or self.stirred
        early, early_at = None, progress.own.early_at
        if stirred and report.bound < FOREVER and due(options, progress.own.early_at, self.clock):
            current = between(opens, high + 1) if high >= opens else None
            current = None if current is None else current.filter(pa.array(report.opened(current)))
            changed = _changed(db, query, still, current)
            if changed is not None and changed.num_rows:
                early = changed
                rows.append(_reported(db, query, changed, given, OPEN))
                numbers.append(numbers_of(rows[-1]))
            still, early_at, stirred = current, self.clock, False
        next_shown = pc.min(still["_at"]).as_py() if still is not None and still.num_rows else None
        return replace(
            report,
            answers=pa.concat_tables(rows, promote_options="permissive") if rows else None,
            numbers=[n for n in numbers if n.num_rows],
            pending=min((p for p in (report.pending, next_shown) if p is not None), default=None),
            early=early,
            early_at=early_at,
            stirred=stirred,
        )


def shown_early(
    db: duckdb.DuckDBPyConnection, query: RelationalQuery, parts: Sequence[pa.Table], since: int
) -> pa.Table | None:
    """What is shown early now of instants from `since` on, from all that was reported of them; None if nothing is."""
    parts = [p for p in parts if p.num_rows]
    if not parts:
        return None
    columns = ", ".join(["_at", "_sign", *(f"c{n}" for n in range(len(query.select)))])
    sql = (
        f"SELECT {columns}, sum(_n)::BIGINT AS _n FROM t WHERE _at >= {since} GROUP BY {columns}"
        " HAVING sum(_n) <> 0 ORDER BY ALL"
    )
    table = query_table(db, sql, t=pa.concat_tables(parts, promote_options="permissive"))
    return table if table.num_rows else None


def _closing(
    db: duckdb.DuckDBPyConnection, query: RelationalQuery, found: pa.Table | None, ended: pa.Table | None
) -> pa.Table | None:
    """The answers that count, and what was shown early of the same instants as taken back; None if there is nothing."""
    columns = ", ".join(["_at", "_sign", *(f"c{n}" for n in range(len(query.select)))])
    given = {"found": found, "ended": ended}
    tables = {name: t for name, t in given.items() if t is not None and t.num_rows}
    sql = {
        "found": f"SELECT {columns}, _n, '{CLOSED}' AS _status FROM found",
        "ended": f"SELECT {columns}, -_n AS _n, '{OPEN}' AS _status FROM ended",
    }
    return query_table(db, " UNION ALL ".join(sql[name] for name in tables), **tables) if tables else None


def _changed(
    db: duckdb.DuckDBPyConnection, query: RelationalQuery, old: pa.Table | None, new: pa.Table | None
) -> pa.Table | None:
    model = new if new is not None else old
    if model is None:
        return None
    none = model.slice(0, 0)
    return difference(db, query, none if old is None else old, none if new is None else new)


def _reported(
    db: duckdb.DuckDBPyConnection,
    query: RelationalQuery,
    rows: pa.Table,
    given: Callable[[int, int], pa.Table | None],
    status: str | None,
) -> pa.Table:
    span = pc.min_max(rows["_at"]).as_py()
    return shown(db, query, numbered(db, rows, given(span["min"], span["max"]), status, 0))


def early_chunk(owner: str, epoch: int, rows: pa.Table) -> Chunk:
    """The chunk that remembers what was shown early of instants."""
    span = pc.min_max(rows["_at"]).as_py()
    return Chunk(owner, EARLY, epoch, span["min"], span["max"], rows)
