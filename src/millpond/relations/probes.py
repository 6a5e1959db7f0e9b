"""Probing: of an input's past only the rows that some row of the driver meets, found by pruned scans.

An input that is probed is not kept at hand. For each stretch of instants at which the driver has rows, `stretches` says
where in the past the conditions on time can hold, those stretches are read batch by batch, and of each batch only the
rows that meet a driver's row stay (`Probed.lift`). So what is held at a time is the driver's rows, one batch, and what
meets them: the past never runs ahead of the present's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from millpond.relations.spans import FOR_EVER, Ints, visible_from
from millpond.support.sql import cast_item, quote
from millpond.synopses import query_table
from millpond.types import DAY, HOUR, MINUTE, Probe, RelationInput

#: A stretch of event time: low <= t < high, microseconds.
Stretch = tuple[int, int]

#: Reads rows of a stream as a store has them (`stored_rows.rows_of`), stretch by stretch in bounded batches.
Read = Callable[[Sequence[Stretch]], Iterator[pa.Table]]

#: How fine stretches are made, from coarse to fine; they stop getting finer when they become too many.
_GRAINS = (30 * DAY, DAY, HOUR, 10 * MINUTE, MINUTE)
_MOST = 4096

#: How long the stretch of the driver's instants is that is looked up at a time, where conditions on time prune.
TOGETHER = HOUR

#: The instant that a row of a lifted input belongs to.
INSTANT = "_instant"


@dataclass(frozen=True)
class Probed:
    """An input that is looked up instead of being kept.

    spare: as of `contents.content_of`. read: gives its rows. empty: no row of it.
    oldest: no row is older (event time).
    """

    item: RelationInput
    probe: Probe
    driver: RelationInput
    spare: int
    read: Read
    empty: pa.Table
    oldest: int = -FOR_EVER

    def lift(self, db: duckdb.DuckDBPyConnection, driver: pa.Table, points: Ints) -> pa.Table:
        """The rows that matter at each of some instants, with the number of the instant as `_instant`.

        Arguments:
            driver: the driver's rows at the instants, lifted in the same way. points: the instants, ascending.
        """
        columns = [c.name for c in self.item.columns]
        parts = [self.empty.select(columns).append_column(INSTANT, pa.array([], pa.int64()))]
        if driver.num_rows and len(points):
            where = self.stretches(db, driver, int(points[0]), int(points[-1]))
            for rows in self.read(where):
                if rows.num_rows:
                    parts.append(self._meeting(db, driver, points, rows, columns))
        return pa.concat_tables(parts, promote_options="permissive")

    def stretches(self, db: duckdb.DuckDBPyConnection, driver: pa.Table, first: int, last: int) -> list[Stretch]:
        """Where in the past rows can matter at instants from `first` to `last`, ascending and apart."""
        since = self.item.window.since(first)
        low = self.oldest if since is None else max(self.oldest, since)
        known = np.array([first, last])
        if self.probe.time in driver.column_names:  # else no condition is about it
            known = (
                driver[self.probe.time]
                .cast(pa.timestamp("us", driver[self.probe.time].type.tz))
                .cast(pa.int64())
                .to_numpy()
            )
        return stretches(db, self.probe.may, low, last + 1, int(known.min()), int(known.max()))

    def _meeting(
        self, db: duckdb.DuckDBPyConnection, driver: pa.Table, points: Ints, rows: pa.Table, columns: Sequence[str]
    ) -> pa.Table:
        times = rows["_t"].to_numpy()
        begin = visible_from(rows, times, self.spare)
        reach = self.item.window.reach
        end = np.full(len(times), FOR_EVER) if reach is None else times + (reach + 1)
        candidates = rows.select(columns)
        for name, values in (("_row", np.arange(len(times))), ("_begin", begin), ("_end", end)):
            candidates = candidates.append_column(name, pa.array(values))
        known = driver.append_column("_at", pa.array(points[driver[INSTANT].to_numpy()]))
        sql = (
            f'SELECT DISTINCT "probed"._row AS r, "driver".{INSTANT} AS i'
            f' FROM {_typed("known", self.driver, (INSTANT, "_at"))} AS "driver"'
            f' JOIN {_typed("candidates", self.item, ("_row", "_begin", "_end"))} AS "probed"'
            f' ON {self.probe.condition} AND "probed"._begin <= "driver"._at AND "driver"._at < "probed"._end'
            " ORDER BY ALL"
        )
        pairs = query_table(db, sql, known=known, candidates=candidates)
        return rows.select(columns).take(pairs["r"]).append_column(INSTANT, pairs["i"].cast(pa.int64()))


def _typed(name: str, item: RelationInput, own: Sequence[str]) -> str:
    """A FROM item with the columns as they were declared, whatever Arrow carries them as."""
    columns = [cast_item(quote(c.name), c.type) for c in item.columns]
    return f"(SELECT {', '.join([*columns, *own])} FROM {name})"


def stretches(
    db: duckdb.DuckDBPyConnection, may: str | None, low: int, high: int, known_low: int, known_high: int
) -> list[Stretch]:
    """The stretches of low <= t < high in which a condition on time may hold.

    Arguments:
        may: of a `Probe`. known_low, known_high: between what the driver's event times lie.
    """
    if low >= high:
        return []
    if may is None or low <= -FOR_EVER:
        return [(low, high)]
    found = np.array([[low, high]], np.int64)
    for grain in _GRAINS:
        finer = _cut(found, grain)
        if len(finer) > _MOST:
            break
        table = pa.table({"lo": finer[:, 0], "hi": finer[:, 1] - 1})
        sql = (
            f"SELECT coalesce(({may}), true) AS m FROM (SELECT make_timestamp(lo) AS h_lo, make_timestamp(hi) AS h_hi,"
            f" make_timestamp({known_low}) AS d_lo, make_timestamp({known_high}) AS d_hi FROM pieces)"
        )
        found = finer[query_table(db, sql, pieces=table)["m"].to_numpy()]
        if not len(found):
            return []
    joined: list[Stretch] = []
    for start, end in found.tolist():
        if joined and joined[-1][1] == start:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined


def _cut(pieces: np.ndarray[tuple[int, int], np.dtype[np.int64]], grain: int) -> Ints:
    """Pieces cut at the multiples of a length."""
    first, last = pieces[:, 0] // grain, (pieces[:, 1] - 1) // grain
    count = last - first + 1
    if count.sum() > 4 * _MOST:
        return np.empty((int(count.sum()), 2), np.int64)  # too many, whatever they are
    place = np.repeat(np.arange(len(pieces)), count)
    number = np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count) + first[place]
    return np.stack(
        [np.maximum(pieces[place, 0], number * grain), np.minimum(pieces[place, 1], (number + 1) * grain)], axis=1
    )
