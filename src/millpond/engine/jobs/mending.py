"""Mending: answers that state no longer covers are recomputed from the archive when late rows belong to them.

What an epoch owes its queries (`manifests.owed`) is recomputed in the background: one scan for all queries of an
operator and for all the rows that came meanwhile. What differs from what was reported is adopted by a later epoch, as a
back-fill is, as revisions. Answers that the job looks at are no epoch's business any more, so nothing is told twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Standing
from millpond.engine.jobs.backfill_queue import Backfills
from millpond.engine.jobs.mending_queue import Mendings
from millpond.engine.jobs.table_readings import versions_now
from millpond.engine.pond_view import PondView
from millpond.manifests.adoptions import Adoption
from millpond.manifests.owed import Owed
from millpond.manifests.places import query_owner, results_folder, state_folder
from millpond.manifests.quarantine import Failures, quarantine
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.contract import Answering, Past, Retold
from millpond.operators.registry import operators_of
from millpond.operators.windowed.advance import without_replaced
from millpond.operators.windowed.numbers import REVISIONS
from millpond.progress import NEVER
from millpond.support.event_log import event_log
from millpond.synopses import connection
from millpond.synopses.enums import put_together
from millpond.tables import Chunk, Segment, read_chunks, remove_file, write_chunks

LOG = event_log(__name__)

#: Answers that are compared at a time, about.
PIECE = 2_000_000

#: What goes before the reason.
_GIVEN_UP = "its answers cannot be recomputed for late rows: "


def attempt_mending(pond: PondView, backfills: Backfills, mendings: Mendings, owner: str) -> None:
    """Recompute what is owed to the queries of an operator; a query for which that fails twice is quarantined.

    Raises: what is in `INFRASTRUCTURE`; it may go well another time.
    """
    failures, begun = Failures(pond.catalog, f"mending of {owner}"), time.perf_counter()
    failures.attempt(owner, partial(run_mending, pond, backfills, mendings, owner, failures))
    with pond.lock:
        quarantine(pond.archives.catalogs.log, failures.reasons, _GIVEN_UP)
        pond.epochs.notify()
    LOG.info("answers recomputed for late rows", owner=owner, seconds=time.perf_counter() - begun)


def run_mending(pond: PondView, backfills: Backfills, mendings: Mendings, owner: str, failures: Failures) -> None:
    """Recompute what is owed to the queries of an operator, and write down how it differs.

    Args:
        failures: gets queries that fail.
    """
    with pond.pinned():
        with pond.lock:
            catalog, known, segments = pond.catalog, pond.published, pond.storage.results.segments
            owed = mendings.owed().get(owner)
        operator = operators_of(catalog).named.get(owner)
        if not owed or not isinstance(operator, Answering):
            return
        versions, unread = versions_now(pond.tables, catalog, pond.now())
        plan = f"{backfills.record_path(owner)}.mending"
        past = Past(
            pond.archives, catalog, known, pond.tables, versions, unread, pond.now(), pond.settings.shards, plan,
            failures,
        )  # fmt: skip
        told = operator.retell(past, owed)
        for standing in (catalog.queries[q] for q in owed):
            name = query_owner(standing.id)
            if failures.reason(standing) is None:
                comparing = _Comparing(pond.path, operator, standing, known.epoch, told, segments)
                adoption = failures.attempt(name, partial(comparing.adoption, owed[standing.id]))
                if adoption is not None:
                    mendings.record(adoption)
        for segment in told.results:
            remove_file(os.path.join(results_folder(pond.path), segment.path))


@dataclass(frozen=True)
class _Comparing:
    """What was reported to a query, beside what was told anew.

    epoch: the last one that is published. segments: all files of results.
    """

    path: str
    operator: Answering
    standing: Standing
    epoch: int
    told: Retold
    segments: Sequence[Segment]

    @property
    def owner(self) -> str:
        """What its answers are stored under."""
        return query_owner(self.standing.id)

    def adoption(self, owed: Sequence[Owed]) -> Adoption:
        """How stretches differ, in files that an epoch can adopt."""
        tables = [t for stretch in owed for t in self._differing(stretch)]
        passed = [self._chunk("answers", t) for t in tables]
        shown = [self._chunk("answers", kept) for t in tables if (kept := without_replaced(t)).num_rows]
        replaces = sum(t.num_rows for t in tables) > sum(c.table.num_rows for c in shown)
        numbers = [self._numbers(c.table) for c in shown if c.table.column_names[0] == "at"]
        first = sum(int(pc.sum(pc.equal(c.table["revision"], 0)).as_py()) for c in shown)
        found = QueryProgress(
            windows=first,
            revisions=sum(c.table.num_rows for c in shown) - first,
            missed=tuple(missed for stretch in owed if (missed := self._missed(stretch)) is not None),
        )
        query, name = self.standing.id, f"{self.owner}-{self.epoch:012d}.parquet"
        results, state = results_folder(self.path), state_folder(self.path)
        return Adoption(
            self.owner,
            (query,),
            {str(query): found},
            # It is named as files are that an epoch has written, since no synopsis has rows in it.
            (write_chunks(state, f"e{self.epoch:012d}-m{self.owner}.parquet", numbers, 0),) if numbers else (),
            (write_chunks(results, f"bm{name}", shown, 0),) if shown else (),
            mends=self.epoch,
            passed=(write_chunks(results, f"bp{name}", passed, 0),) if replaces else (),
        )

    def _differing(self, stretch: Owed) -> Iterator[pa.Table]:
        """What is to be reported of a stretch, piece by piece."""
        for low, high in self._pieces(stretch):
            told = _within(self._read(self.told.results, low, high, None), low, high)
            reported = _within(self._read(self.segments, low, high, self.epoch), low, high)
            told, reported = (self._whole(t, low) for t in (told, reported))
            if told.num_rows or reported.num_rows:
                found = self.operator.differing(connection(), self.standing, reported, told)
                if found is not None and found.num_rows:
                    yield found

    def _pieces(self, stretch: Owed) -> Iterator[tuple[int, int]]:
        """A stretch in pieces, each of which has about `PIECE` answers at most, as far as files tell."""
        files = [s for s in (*self.told.results, *self.segments) if s.high >= stretch.low and s.low < stretch.high]
        count = max(1, min(64, sum(s.size for s in files) // (32 * PIECE)))
        edges = [stretch.low + (stretch.high - stretch.low) * n // count for n in range(count + 1)]
        yield from ((a, b) for a, b in pairwise(edges) if a < b)

    def _read(self, files: Sequence[Segment], low: int, high: int, until: int | None) -> pa.Table:
        """The query's rows in some files; until: of answers that were published up to that epoch."""
        tables: list[pa.Table] = []
        for segment in (s for s in files if s.high >= low and s.low < high):
            adopted = segment.last_epoch if segment.path.startswith("b") else None

            def wanted(owner: str, kind: str, epoch: int, a: int, b: int, adopted: int | None = adopted) -> bool:
                published = epoch if adopted is None else adopted
                return b >= low and a < high and (until is None or published <= until)

            path = os.path.join(results_folder(self.path), segment.path)
            tables += [c.table for c in read_chunks([path], {self.owner}, wanted)]
        return put_together(tables) if tables else pa.table({})

    def _whole(self, answers: pa.Table, low: int) -> pa.Table:
        """The answers that retention has not taken rows from."""
        if not answers.num_rows:
            return answers
        if "window_start" in answers.column_names:
            if self.told.removed is None:
                return answers
            starts = pc.fill_null(answers["window_start"].cast(pa.int64()), NEVER)
            return answers.filter(pc.greater_equal(starts, self.told.removed))
        if self.told.since <= low:
            return answers
        return answers.filter(pc.greater_equal(answers["at"].cast(pa.int64()), self.told.since))

    def _missed(self, stretch: Owed) -> tuple[int, int] | None:
        """The part of a stretch that retention has taken rows from."""
        since = self.told.since
        return (stretch.low, min(stretch.high, since)) if stretch.low < since else None

    def _chunk(self, kind: str, answers: pa.Table) -> Chunk:
        span = pc.min_max(answers[_end(answers)].cast(pa.int64())).as_py()
        return Chunk(self.owner, kind, self.epoch, span["min"], span["max"], answers)

    def _numbers(self, answers: pa.Table) -> Chunk:
        """The numbers of instants as epochs remember them."""
        table = pa.table({"end": answers["at"].cast(pa.int64()), "revision": answers["revision"]})
        span = pc.min_max(table["end"]).as_py()
        return Chunk(self.owner, REVISIONS, self.epoch, span["min"], span["max"], table)


def _end(answers: pa.Table) -> str:
    return "at" if answers.column_names[0] == "at" else "window_end"


def _within(answers: pa.Table, low: int, high: int) -> pa.Table:
    if not answers.num_rows:
        return answers
    ends = answers[_end(answers)].cast(pa.int64())
    return answers.filter(pc.and_(pc.greater_equal(ends, low), pc.less(ends, high)))
