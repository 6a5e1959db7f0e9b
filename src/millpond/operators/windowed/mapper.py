"""The map part of operators over windows: the partials of a synopsis, made piece by piece."""

from __future__ import annotations

import time as clock
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa

from millpond.archive.archive_files import row_schema
from millpond.archive.dead_letters import failed_letters
from millpond.catalog import Synopsis
from millpond.catalog.unions import entering
from millpond.manifests.task_reports import Operated
from millpond.operators.contract import Mapped, Mapper, MapTask, Piece, Taken
from millpond.operators.windowed.lookups import live_lookup, of_stream, tolerant_join
from millpond.synopses import connection
from millpond.synopses.partials.dispatch import Spec
from millpond.synopses.partials.shards import cut
from millpond.synopses.tolerance import tolerant
from millpond.tables.chunks import pack
from millpond.types import HOLDS, Expression


def casts(spec: Spec) -> tuple[tuple[str, str], ...]:
    """(quoted column, type) of the columns that a synopsis reads as another type than Arrow carries."""
    return tuple((dict(spec.casts) | dict(spec.narrowed)).items())


def together(one: pa.Table | None, other: pa.Table | None) -> pa.Table | None:
    """Failing rows of two steps."""
    found = [t for t in (one, other) if t is not None]
    return pa.concat_tables(found) if found else None


class SynopsisMapper(Mapper):
    """Makes the partials of one synopsis in one map task."""

    #: Whether the condition chooses among the rows of windows, and not before: windows are of all rows.
    marks = False

    def __init__(self, task: MapTask, synopsis: Synopsis) -> None:
        self.task, self.synopsis = task, synopsis
        self.spec: Spec = synopsis.spec
        self._made: list[pa.Table] = []
        self._mapped = Mapped()

    @abstractmethod
    def make(self, db: duckdb.DuckDBPyConnection, spec: Any, rows: pa.Table) -> pa.Table:
        """The partial of rows. spec: of the synopsis's kind, without what has been asked of the rows already."""

    @abstractmethod
    def settle(self, db: duckdb.DuckDBPyConnection, made: Sequence[pa.Table]) -> tuple[pa.Table, list[pa.Table]]:
        """The partials of all pieces as one, and as they are sent: in one table or more."""

    def add(self, piece: Piece) -> None:
        """See `Mapper`. Rows on which an expression fails become dead letters."""
        owner, counting, catalog = self.synopsis.owner, piece.counting, self.task.catalog
        if not counting.num_rows:
            return
        begun = clock.perf_counter()
        table, failed = self._partial(piece)
        if failed is not None:
            names = ", ".join(catalog.called(catalog.served(owner)))
            self._mapped.dead.append(failed_letters(failed, names, self.task.manifest.epoch))
        self._made.append(table)
        done = Operated(counting.num_rows, table.num_rows, clock.perf_counter() - begun)
        self._mapped.operators[owner] = self._mapped.operators.get(owner, Operated()) + done

    def _partial(self, piece: Piece) -> tuple[pa.Table, pa.Table | None]:
        task, spec = self.task, self.spec
        first = row_schema(task.catalog.streams[spec.stream]) if spec.feeds else piece.rows.schema
        entered = own = entering(piece.counting, spec, task.stream.id, first)
        failing: pa.Table | None = None
        if spec.lookup is not None:
            lookup = live_lookup(spec.lookup, self.synopsis.owner, task.manifest)
            entered, failing = tolerant_join(task.pond, entered, lookup, spec.time)
        screen = task.screens.of(self.synopsis.owner, spec.where, casts(spec))
        if screen is not None:
            screened = screen.screen(entered, mark=self.marks)
            entered, failing = screened.rows, together(failing, of_stream(screened.failed, own.column_names))
            if screened.marked is not None:
                entered = screened.marked
            spec = replace(spec, where=None if screened.marked is None else Expression.column_of(HOLDS))
        table, failed = tolerant(lambda rows: self.make(connection(), spec, rows), entered)
        return table, together(failing, of_stream(failed, own.column_names))

    def finish(self, taken: Taken) -> Mapped:
        """See `Mapper`."""
        mapped, owner = self._mapped, self.synopsis.owner
        if not self._made:
            return mapped
        db, shards = connection(), self.task.manifest.shards
        whole, tables = self.settle(db, self._made)
        parts = [part for table in tables for part in cut(db, self.spec, owner, table, shards)]
        self.task.made[owner] = whole
        mapped.parcels = [(owner, shard, pack(table)) for shard, table in parts]
        return mapped
