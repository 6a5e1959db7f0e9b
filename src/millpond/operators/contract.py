"""The contract of operators: rows in, partials by shard; partials and state in, new state and answers out.

An operator is one standing computation over streams that queries share. Map and merge tasks are loops over operators
and know no kind; operators know nothing of each other. One that reads the state of others names their owners as its
`inputs`, and finds what they show in `MergeTask.views`.

Laws that `tests/operators` holds every kind to: it makes no difference how rows were cut and ordered within what their
stream announces; a repeated task gives equal bytes; what a process keeps in memory is a cache; compaction changes no
answer; what is made of the past equals what was made live; what lies outside of `needs` can go; whatever an operator
raises is its queries' failure, and nobody else's.

Every call of an operator goes through `Failures.attempt`. One that works for several queries goes through it, too, with
what it does for each of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.archive.design.exactness import LeftOut
from millpond.archive.open_archives import Archives
from millpond.catalog import Catalog, Standing
from millpond.manifests.adoptions import Adoption
from millpond.manifests.owed import Owed
from millpond.manifests.quarantine import Failures
from millpond.manifests.query_progress import NothingOwn, OwnProgress, QueryProgress
from millpond.manifests.records import Manifest, Published
from millpond.manifests.task_reports import Frequent, Matched, Operated, Scanned
from millpond.operators.filters.filter_orders import Screens
from millpond.operators.plan_facts import PlanFacts
from millpond.progress import NEVER, StreamProgress
from millpond.sources.own_marks import counted
from millpond.sources.table_sources.versions import TableVersions
from millpond.synopses import connection
from millpond.tables import Chunk, DurableWrites, Segment
from millpond.tables.chunks import Payload
from millpond.tables.shard_cache import Version
from millpond.types import Expression, Query, QueryDefinition, QueryOptions, StreamDefinition
from millpond.types.plan_nodes import PlanNode

# -- map ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """Rows of a stream as the archive has them, with their hidden columns."""

    rows: pa.Table
    stream: StreamDefinition

    @cached_property
    def counting(self) -> pa.Table:
        """The rows that count: under `late = 'drop'` those that were on time."""
        return counted(self.rows, self.stream.options)


@dataclass(frozen=True)
class MapTask:
    """One map task of an epoch: a split of one stream.

    number: of the task within the epoch. screens: adaptive filters of the task. writes: of its files.
    failures: what fails in it. made: what mappers leave for others of this task, by owner.
    """

    pond: str
    manifest: Manifest
    catalog: Catalog
    stream: StreamDefinition
    number: int
    screens: Screens
    writes: DurableWrites
    failures: Failures
    made: dict[str, pa.Table] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The name of the archive file that the task writes."""
        return f"e{self.manifest.epoch:012d}-{self.number:05d}.parquet"


@dataclass(frozen=True)
class Taken:
    """All rows of a map task: as a piece, when an operator asked for them whole, and the archive file they went to.

    file: None when there were no rows.
    """

    whole: Piece
    file: Segment | None


@dataclass
class Mapped:
    """What a mapper gives when all rows have come.

    parcels: (owner, shard, packed table). dead: dead letters. operators: by name. The others: as of `MapReport`.
    """

    parcels: list[tuple[str, int, Payload]] = field(default_factory=list)
    dead: list[pa.Table] = field(default_factory=list)
    operators: dict[str, Operated] = field(default_factory=dict)
    copies: dict[str, Segment] = field(default_factory=dict)
    entries: dict[str, Segment] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)
    frequent: dict[str, Frequent] = field(default_factory=dict)
    matched: Matched | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, other: Mapped) -> None:
        """Take in what another mapper gives, but for its parcels."""
        self.dead += other.dead
        self.operators |= other.operators
        self.copies |= other.copies
        self.entries |= other.entries
        self.passed |= other.passed
        self.frequent |= other.frequent
        self.matched = other.matched or self.matched
        self.seconds |= other.seconds


class Mapper:
    """The part of an operator in one map task. whole: whether `finish` looks at all rows at once.

    A method that raises is called once more, so it changes nothing before it has succeeded.
    """

    whole = False

    def add(self, piece: Piece) -> None:
        """Take in the next rows, in order of intake."""

    def finish(self, taken: Taken) -> Mapped:
        """What becomes of all rows."""
        return Mapped()

    def failed(self, taken: Taken, reason: str) -> Mapped:
        """What becomes of them when it has failed. Its queries are quarantined then."""
        return Mapped()


# -- merge -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MergeTask:
    """One merge task of an epoch: a shard.

    progress: of the streams, and of unions that are read, after the epoch. segments: the shard's committed state files,
    oldest first. failures: what fails in this epoch; an operator answers no query that does.
    views: what operators show to those that have them as inputs, by owner. answers: those that operators have given so
    far in this task.
    """

    pond: str
    manifest: Manifest
    catalog: Catalog
    shard: int
    progress: Mapping[str, StreamProgress]
    segments: Sequence[Segment]
    failures: Failures
    views: dict[str, Any] = field(default_factory=dict)
    answers: list[Chunk] = field(default_factory=list)

    @property
    def db(self) -> duckdb.DuckDBPyConnection:
        """The connection of this thread, which may be another one after an error."""
        return connection()

    @property
    def version(self) -> Version:
        """The version of the pond's state that the epoch makes: what is kept from one epoch to the next goes by it."""
        return self.manifest.state_version(self.pond)


@dataclass
class Step:
    """What an operator gives in a merge task.

    state, answers: chunks to store. progress: of its queries, by id. spent: seconds, by query.
    merged: seconds spent on state. scans, filters, passed: as of `MergeReport`.
    """

    state: list[Chunk] = field(default_factory=list)
    answers: list[Chunk] = field(default_factory=list)
    progress: dict[str, QueryProgress] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    merged: float = 0.0
    scans: dict[str, Scanned] = field(default_factory=dict)
    filters: dict[str, dict[str, Any]] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)

    def add(self, other: Step) -> None:
        """Take in what another operator gives."""
        self.state += other.state
        self.answers += other.answers
        self.progress |= other.progress
        self.spent |= other.spent
        self.merged += other.merged
        self.scans |= other.scans
        self.filters |= other.filters
        self.passed |= other.passed


@dataclass(frozen=True)
class CompactTask:
    """State files of a shard that are put together.

    files: these. whole: they are all that the shard has. failures: what fails in this epoch.
    """

    pond: str
    manifest: Manifest
    catalog: Catalog
    shard: int
    whole: bool
    failures: Failures

    @property
    def db(self) -> duckdb.DuckDBPyConnection:
        """See `MergeTask`."""
        return connection()


# -- the past ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Past:
    """The epochs before the first one that an operator has live, for its back-fill.

    archives: of the pond, pinned. catalog: as of when the back-fill began. known: what the last of these epochs has
    published. tables: of the pond; versions, unread: as of `Manifest`. clock: a reading of now. shards: of the pond.
    plan: where a file may lie that tasks read. failures: gets queries that fail, by which the others are not kept.
    """

    archives: Archives
    catalog: Catalog
    known: Published
    tables: TableVersions
    versions: Mapping[str, int]
    unread: Mapping[str, str]
    clock: int
    shards: int
    plan: str
    failures: Failures

    @property
    def path(self) -> str:
        """The pond's folder."""
        return self.archives.path


@dataclass(frozen=True)
class Retold:
    """What queries answer of some stretches by all that is archived.

    results: files with their answers, which nobody else names. removed: retention has removed rows before this event
    time (microseconds); None: none. since: instants from there on have all their rows, where that can be told of all
    answers at once.
    """

    results: tuple[Segment, ...]
    removed: int | None = None
    since: int = NEVER


# -- the contract ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kept:
    """The state of an operator as SHOW SYNOPSES has it.

    kind: what it is called. streams: of whose rows it is made. pane: what there is of each group, or each instant.
    filter: which rows enter; None: all. keys: what it is grouped by, or placed by. components: how many columns it has.
    form: of its rows.
    """

    kind: str
    streams: tuple[str, ...]
    pane: str
    filter: Expression | None
    keys: str
    components: int
    form: str


class Operator(ABC):
    """A standing computation.

    owner: the name that its state is stored under. inputs: owners of operators whose state it reads.
    readers: the operators that have it among their inputs. first_epoch: the first epoch whose rows it gets live.
    loads: makes a process ready for its merge tasks, and can be done beside map tasks; None: there is nothing to do.
    """

    owner: str
    inputs: tuple[str, ...] = ()
    readers: tuple[Operator, ...] = ()
    first_epoch: int = 0
    loads: Callable[[], None] | None = None

    @classmethod
    @abstractmethod
    def of(cls, catalog: Catalog) -> Iterable[Operator]:
        """The operators of this kind in a catalog."""

    @property
    def owners(self) -> frozenset[str]:
        """All names that it stores chunks of state under."""
        return frozenset((self.owner,))

    def users(self) -> Sequence[Standing]:
        """The queries that it works for, which fail when it fails: none that is quarantined."""
        return ()

    def mapper(self, task: MapTask) -> Mapper | None:
        """Its part in a map task; None when rows of that stream do not concern it."""
        return None

    def in_shard(self, shard: int, shards: int) -> bool:
        """Whether it has anything in a shard."""
        return False

    def merge(self, task: MergeTask, parts: Sequence[pa.Table]) -> Step:
        """Take in what the map tasks sent, in order of tasks, and answer."""
        return Step()

    def history(self, past: Past) -> Adoption | None:
        """What it would have given, had it been there: the same kernels over the archive.

        Files that it writes are named by it, so that a repetition replaces them, and nobody sees them before an epoch
        adopts what is returned.

        Returns: what its queries get, and the state that they go on with; None: there is nothing to adopt.
        """
        return None

    def adopt(self, pond: str, epoch: int, adoption: Adoption) -> int:
        """Make of a finished back-fill, its own or another's, what an epoch needs that adopts it.

        A repetition writes the same files.

        Args:
            pond: its folder.
        Returns: the rows that were made.
        """
        return 0

    def logged(self, answers: Chunk) -> Chunk:
        """Answers that it has given as the log keeps them."""
        return answers

    def compacted_as(self, kind: str) -> str:
        """The kind under which chunks of a kind are put together."""
        return kind

    def compact(self, task: CompactTask, owner: str, kind: str, chunks: Sequence[Chunk]) -> Iterable[Chunk]:
        """Chunks of one owner and kind as fewer, without what nobody can need any more."""
        return chunks

    def keeps(self, owner: str) -> bool:
        """Whether it needs the state of one of its inputs at hand, and not only the epoch's rows."""
        return True

    def needed_rows(
        self, db: duckdb.DuckDBPyConnection, manifest: Manifest, owner: str, rows: pa.Table, whole: bool
    ) -> npt.NDArray[np.bool_]:
        """Which rows of one of its inputs it can still need.

        Args:
            rows: of the input's state. whole: these are all that it has, not those of some files.
        """
        return np.ones(rows.num_rows, bool)

    @abstractmethod
    def explain(self, facts: PlanFacts, asker: Standing | None = None) -> PlanNode:
        """What it is, what it does and for whom, for EXPLAIN.

        Args:
            asker: the query that is explained, one of its users; None: the operator itself is.
        """

    def explain_stream(self, facts: PlanFacts, stream: StreamDefinition) -> PlanNode | None:
        """What it does with the rows of a stream, or how it makes them; None: it has nothing to do with them."""
        return None

    @classmethod
    def explain_query(cls, facts: PlanFacts, query: Query, standing: Standing | None) -> PlanNode | None:
        """How operators of this kind answer a query; None: another kind does.

        Args:
            standing: the query as it is registered; None: nobody has registered it.
        """
        return None

    def kept(self, split: Mapping[str, str]) -> Kept | None:
        """The state that queries share of it, for SHOW SYNOPSES; None: there is none to be shown.

        Args:
            split: the keys whose rows are split over shards, as of `Manifest.hot`.
        """
        return None

    def needs(
        self, progress: Mapping[str, StreamProgress], queries: Mapping[str, Any], failures: Failures
    ) -> int | None:
        """The event time before which it needs no state (microseconds); NEVER: all of it; None: it has none.

        Args:
            progress: of the streams, by id. queries: progress of the queries, by id. failures: gets those that fail.
        """
        return None


#: Why all queries but one refuse the option `every`.
ONLY_RSTREAM = "'every' is for RSTREAM; ISTREAM and DSTREAM report changes when they happen"


@dataclass(frozen=True)
class Mark:
    """A watermark that a query has beside its own.

    kind: what it is about. sources: of which event times it is; until: how far they are (microseconds).
    """

    kind: str
    sources: tuple[str, ...]
    until: tuple[int, ...]


class Answering(Operator):
    """An operator that answers standing queries, by windows or by instants; times are microseconds.

    `standing` is one of its users, `known` that query's progress, `progress` that of the streams, by id.

    query_kind: the queries that its kind answers. first_epoch: the first one whose rows its state has live.
    refuses: options that mean nothing to it, and why; {value} stands for what is asked.
    progress_kind: what its kind knows of a query's progress beside what all do. Records have it unread: whoever looks
    at it reads it first (`QueryProgress.read`).
    """

    query_kind: ClassVar[type]
    first_epoch: int
    refuses: ClassVar[Mapping[str, str]] = {}
    progress_kind: type[OwnProgress] = NothingOwn

    @classmethod
    def check(cls, query: Any, options: QueryOptions, streams: Sequence[StreamDefinition]) -> None:
        """Raises: Refusal when a query of the kind cannot have some options, or cannot be over these streams."""

    @classmethod
    def combined(cls, before: QueryProgress, shards: Sequence[QueryProgress]) -> QueryProgress:
        """A query's progress after an epoch: what it was before, and what each shard made of it."""
        return before.read(cls.progress_kind).after([s.read(cls.progress_kind) for s in shards])

    @classmethod
    def answered(cls, known: QueryProgress) -> int:
        """The time up to which a query's answers have gone out altogether."""
        return known.closed

    @classmethod
    def answered_groups(cls, query: Any, known: QueryProgress) -> Mapping[str, int]:
        """The groups whose answers have gone out further than that, by the text of their values."""
        return {}

    @classmethod
    def marked_columns(cls, query: Any, options: QueryOptions, streams: Sequence[StreamDefinition]) -> tuple[str, ...]:
        """The columns of its answers that tell the groups apart which its streams have bounds for (`marks_by`), where
        answers go out group by group; none: they wait for the streams' watermarks.

        Args:
            streams: that it reads, in the order of the query.
        """
        return ()

    @classmethod
    def qualified(cls, definition: QueryDefinition, known: QueryProgress, answers: pa.Table) -> pa.Table:
        """Answers of a query as its log has them, with the columns that say what they lack.

        Args:
            answers: as they were stored. known: the query's progress.
        """
        return answers

    @classmethod
    def lasting(cls, known: int) -> str:
        """Why `revise_for`, which is `known`, cannot become longer while a query stands; '': it can."""
        return ""

    @classmethod
    def reads_since(cls, query: Any, start: int) -> int | None:
        """The event time from which a query needs rows that answers from `start` on; None: from the first one on."""
        return None

    @classmethod
    def known_until(cls, query: Any, bounds: Sequence[int]) -> int:
        """Until when the answer of a query is known, when its inputs are complete up to some bounds."""
        return min(bounds)

    @classmethod
    def next_end(cls, query: Any, closed: int, high: int) -> int | None:
        """What is waited for when a query has answered up to `closed`: when an open window closes.

        high: the newest row of its streams, microseconds. None: no window is open, or rows yet to come say when.
        """
        return None

    @classmethod
    def left_out(cls, known: QueryProgress) -> LeftOut:
        """What the back-fill of a query has left out (REDUCE)."""
        return LeftOut(())

    @classmethod
    def view(cls, standing: Standing, owner: str) -> str:
        """The window through which a query sees the state of an owner, as in SQL."""
        return ""

    def marks(self, standing: Standing, known: QueryProgress) -> Sequence[Mark]:
        """What there is to be said of a query's watermark beside how far it has answered."""
        return ()

    @classmethod
    def covered(cls, known: QueryProgress) -> int:
        """The event time before which retention had removed rows when the query's back-fill read them; NEVER: none."""
        return NEVER

    @abstractmethod
    def bound(self, standing: Standing, progress: Mapping[str, StreamProgress], clock: int) -> int:
        """How far its input is complete.

        Args:
            clock: the reading of the epoch, which says who is idle.
        """

    @abstractmethod
    def answered_until(self, standing: Standing, progress: Mapping[str, StreamProgress], clock: int) -> int:
        """The time up to which a query has answered when its streams are so far; arguments as of `bound`."""

    def starts_at(self, standing: Standing, progress: Mapping[str, StreamProgress], clock: int) -> int:
        """The time from which on a query answers that goes live now; arguments as of `bound`."""
        return self.bound(standing, progress, clock)

    @abstractmethod
    def due(self, standing: Standing, known: QueryProgress, progress: Mapping[str, StreamProgress], clock: int) -> bool:
        """Whether a query has something to answer, when time has passed and no rows have come.

        Args:
            progress: as an epoch at `clock` would find it.
        """

    def due_by_clock(self, standing: Standing, known: QueryProgress, clock: int) -> bool:
        """Whether the clock alone makes answers: early ones, or those that wait to go out."""
        return False

    @abstractmethod
    def uses(self, standing: Standing, known: QueryProgress | None, before: int, bound: int, high: int) -> bool:
        """Whether a query has use for progress of its one stream from `before` to `bound`; high: of the stream."""

    @abstractmethod
    def retell(self, past: Past, owed: Mapping[int, Sequence[Owed]]) -> Retold:
        """What queries answer of stretches that state no longer covers: the kernels of `history` over the archive.

        Args:
            past: the epochs up to the last that is published. owed: stretches, by query.
        """

    @abstractmethod
    def differing(
        self, db: duckdb.DuckDBPyConnection, standing: Standing, reported: pa.Table, told: pa.Table
    ) -> pa.Table | None:
        """What is to be reported of a stretch in which other answers hold than were reported; None: nothing.

        Args:
            reported: every row that was reported of it, with its `op`. told: the answers that hold. One of them may be
                a table without columns.
        """

    def looks_up(
        self, standing: Standing, known: QueryProgress, progress: Mapping[str, StreamProgress]
    ) -> Mapping[int, int]:
        """The streams whose archives an epoch may look up for a query, each with the event time from which on."""
        return {}

    @abstractmethod
    def final_until(
        self, standing: Standing, known: QueryProgress, progress: Mapping[str, StreamProgress], ended: bool
    ) -> int:
        """The time until which answers can no longer change, that time included; NEVER: none is final.

        Args:
            ended: nothing more comes to its streams, ever.
        """


def least_need(needs: Iterable[int | None]) -> int:
    """The event time before which no operator needs state; NEVER where none has any or one needs all.

    >>> least_need([None, 30, 20]), least_need([]) == NEVER
    (20, True)
    """
    return min((n for n in needs if n is not None), default=NEVER)
