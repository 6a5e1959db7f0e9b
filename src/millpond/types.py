"""The words that every room uses: columns, streams, windows, bound queries.

Everything here is an immutable value that can be written as JSON and read back (`to_json`, `from_json`), because
manifests and the catalog carry these values between processes and across restarts.

    >>> Column("mph", "DOUBLE")
    Column(name='mph', type='DOUBLE')
    >>> from_json(StreamDefinition, to_json(StreamDefinition("s", (Column("ts", "TIMESTAMP"),)))).columns[0].name
    'ts'
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

T = TypeVar("T")

MICROSECOND = 1
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

#: Name of the implicit event time of a stream whose progress is its arrival.
ARRIVAL = "arrival_ts"

#: The column that answers have beside `revision` where a stream has a retention.
COVERED = "covered_from"

#: The column that answers of a query with the option `early` have beside `revision`: 'early' or 'closed'.
STATUS = "status"


@dataclass(frozen=True)
class Column:
    """A column of a stream, table or answer. `type` is the text of a DuckDB type in canonical form."""

    name: str
    type: str


#: The column that answers of a reduced scan have: whether nothing was left out of what they are made of.
EXACT = "exact"

#: The column that rows of a reduced scan have in the engine: how many rows of the stream each one stands for.
WEIGHT = "_weight"

#: The column that answers have behind `window_end` where windows end with rows.
NUMBER = Column("window_number", "BIGINT")


@dataclass(frozen=True)
class StreamOptions:
    """What `WITH (…)` behind CREATE STREAM says. Durations are microseconds of event time (`idle`: of clock time).

    time: the event-time column; `ARRIVAL` when `progress='arrival'`.
    lateness / lateness_rows: how far a row may lag behind the largest event time, by time or by count;
        both None means `ordered` (progress is the largest event time seen).
    ahead: how far a row may lead the median of the cohort of rows before it; None: no limit.
    lateness_share: the lateness is estimated: so much of the disorder seen so far is allowed for (1.0: all of it).
    timer: progress is announced every so often only, by the clock; lull: how far behind the clock it stays when nothing
        comes (needs a timer). step: progress is announced at multiples of so much event time only.
    marks_column: a column with the source's own bound on what follows. marks_record: DuckDB SQL over the columns: rows
        for which it holds are no data; their event time is such a bound. marks_by: the bounds are for rows with the
        same value in that column; at most `marks_groups` values are kept. marks_only: nothing else makes progress.
    guard: what a row does that lies behind a bound which its own source gave.
    late: what a row behind the announced progress does.
    retention: how long rows stay in the archive; None: for ever.
    archive: how it is organised, as `millpond.archive.designs` reads it. seed: of samples of it; None: the stream's id.
    """

    source: Literal["ingest", "files", "derived"] = "ingest"
    path: str | None = None
    format: Literal["parquet", "csv", "ndjson"] | None = None
    order: Literal["name", "mtime"] = "name"
    header: bool = True
    delimiter: str = ","
    null: str = ""
    time: str = ARRIVAL
    lateness: int | None = None
    lateness_rows: int | None = None
    idle: int | None = None
    ahead: int | None = None
    late: Literal["revise", "drop"] = "revise"
    retention: int | None = None
    archive: str = "plain"
    seed: int | None = None
    lateness_share: float | None = None
    timer: int | None = None
    lull: int | None = None
    step: int | None = None
    marks_column: str | None = None
    marks_record: str | None = None
    marks_by: str | None = None
    marks_groups: int = 1000
    marks_only: bool = False
    guard: Literal["late", "reject"] = "late"


@dataclass(frozen=True)
class Derivation:
    """Where the rows of a derived stream come from (`CREATE STREAM x AS SELECT …`).

    sources: ids of the streams that its query reads.
    query: id of the standing query whose answers its rows are; None: they are rows of `sources[0]`.
    where, select: of the second kind, which rows and what of them: DuckDB SQL over the source's columns, quoted.
    revisions: what becomes of answers that change: 'forward' (they are rows, too, with `revision` and `op`), 'retract'
        (the old answer comes again as a row with `op = '-'`, which takes it back, and the new one with '+'), 'ignore'
        (first answers only), 'final' (only answers that cannot change any more are rows; they come later). Rows of a
        stream that takes rows back are 'retract', too.
    first_epoch: the first epoch whose rows and answers it gets as they come.
    history: whether rows from before that epoch are made from the source's archive (second kind only).
    since: of those, only rows from this event time on (microseconds); None: all.
    text: the statement.
    """

    sources: tuple[int, ...]
    query: int | None = None
    where: str | None = None
    select: tuple[Output, ...] = ()
    revisions: Literal["forward", "retract", "ignore", "final"] = "forward"
    first_epoch: int = 1
    history: bool = False
    since: int | None = None
    text: str = ""


@dataclass(frozen=True)
class StreamDefinition:
    """A stream as declared. `id` is given by the catalog and never used twice. derived: where its rows come from."""

    name: str
    columns: tuple[Column, ...]
    options: StreamOptions = StreamOptions()
    id: int = 0
    derived: Derivation | None = None

    def column(self, name: str) -> Column | None:
        """The column of that name (case-insensitive), or None."""
        return next((c for c in self.all_columns if c.name.lower() == name.lower()), None)

    @property
    def takes_back(self) -> bool:
        """Whether its rows with `op = '-'` take back equal ones with '+': windows and relations see what is left."""
        return self.derived is not None and self.derived.revisions == "retract"

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """The declared columns, and the implicit `arrival_ts` of a stream that runs on arrival time."""
        if self.options.time == ARRIVAL and all(c.name != ARRIVAL for c in self.columns):
            return (*self.columns, Column(ARRIVAL, "TIMESTAMP"))
        return self.columns


@dataclass(frozen=True)
class TableDefinition:
    """A table: rows without progress, read from files whenever a statement needs them."""

    name: str
    columns: tuple[Column, ...]
    path: str
    format: Literal["parquet", "csv", "ndjson"]
    header: bool = True
    delimiter: str = ","
    null: str = ""
    id: int = 0


@dataclass(frozen=True)
class Landmark:
    """Where growing windows begin: `[RANGE ALL SLIDE …]`, `[RANGE ALL SINCE '06:00' DAILY SLIDE …]`.

    since: the first landmark, microseconds; None: the start of the stream, and there is no other. Without a date
        (`every` a day) the first one lies in 1970, so that there is one on each day.
    every: the time from a landmark to the next, microseconds of the clock of `zone`; None: there is only one.
    zone: the time zone in which days are counted.
    """

    since: int | None = None
    every: int | None = None
    zone: str = "UTC"


@dataclass(frozen=True)
class Window:
    """A time window `[RANGE range SLIDE slide ON attribute ORIGIN origin]`; all numbers are microseconds.

    Windows end at origin + k*slide (k any integer) and cover [end - range, end). `ALIGN START` is expressed by an
    origin moved by range mod slide, so that nothing behind the binder needs to know of it.

    landmark: windows cover everything since the last landmark before their end instead; `range` is 0 then.
    kind: windows of a registered kind instead (its reference, see `millpond.windows.registered`): RANGE and SLIDE are
        one window then, since ids stand in the place of times, and `length` is how long windows are.
    """

    range: int
    slide: int
    origin: int = 0
    attribute: str = "ts"
    landmark: Landmark | None = None
    kind: str | None = None
    length: int = 0


@dataclass(frozen=True)
class KindDefinition:
    """A kind of windows that was registered. reference: what the engine calls it.

    fingerprint: which windows it gave for some times: another kind under its name is noticed. length: microseconds
        of the longest window that it gave, or of the longest there is where the kind says that.
    """

    name: str
    reference: str
    fingerprint: str
    length: int = 0
    id: int = 0


@dataclass(frozen=True)
class RowWindow:
    """A window that ends with a row: `[ROWS n SLIDE m]`, `[PARTITION BY a ROWS n SLIDE m]`, `[RANGE t SLIDE m ROWS]`.

    The rows of a stream (of each partition of it) are numbered from 1; windows end with the rows whose number is a
    multiple of `slide`. A window holds the last `rows` rows up to its end, or the rows with end - range < time <= end.
    Windows are made of all rows of the stream; the query's WHERE chooses among the rows of a window.

    rows, range: one of them is given; `range` in microseconds.
    partition: columns (DuckDB SQL); each partition is numbered by itself, and its columns are keys of the answer.
    numbered: by rank in the stream's total order (late rows move the numbers behind them), or by arrival.
    """

    rows: int | None = None
    range: int | None = None
    slide: int = 1
    partition: tuple[Key, ...] = ()
    numbered: Literal["rank", "arrival"] = "rank"
    attribute: str = "ts"


@dataclass(frozen=True)
class Reduction:
    """What `REDUCE …` behind a stream says: how much of its past a scan may leave out.

    function: 'sample', 'age', 'load', 'error', 'interval', or the name of a registered function.
    drops: fractions to drop, at least 0 and below 1: that of sample; of age one for each of `spans`; of load the most
        that it may drop.
    spans: microseconds; of age: of rows that are more than so much older than NOW, ascending; of interval: how long the
        intervals are.
    error: how narrow an interval error() asks for: half its width as a fraction of the estimate.
    arguments: constants given to a registered function: numbers and texts.
    """

    function: str
    drops: tuple[float, ...] = ()
    spans: tuple[int, ...] = ()
    error: float = 0.0
    arguments: tuple[int | float | str, ...] = ()

    @property
    def samples(self) -> bool:
        """Whether it leaves out rows, so that those read stand for others."""
        return self.function != "interval"


@dataclass(frozen=True)
class RelationWindow:
    """A window without SLIDE: it makes a stream a relation, defined at every instant (CQL's stream-to-relation).

    kind: 'range': the rows with τ - range <= event time <= τ (`[NOW]`: range 0); 'rows': the last `rows` rows up to τ
        in total order (of each partition); 'unbounded': all rows up to τ.
    partition: columns of PARTITION BY, as declared.
    """

    kind: Literal["range", "rows", "unbounded"]
    range: int = 0
    rows: int = 0
    partition: tuple[str, ...] = ()


@dataclass(frozen=True)
class RelationInput:
    """A windowed stream in the FROM of a relational query.

    alias: what the SQL calls it. columns: those of the stream that the query needs. where: DuckDB SQL over the stream's
        columns, pushed below the window; None: every row. checks: expressions that are evaluated when a row arrives, so
        that a row on which they fail goes to the dead letters. narrowed: see `BoundQuery`.
    signed: rows with `op = '-'` take others back. feeds: the streams of a union, of which `stream` is the first;
        empty: there is only `stream`.
    """

    alias: str
    stream: str
    window: RelationWindow
    columns: tuple[Column, ...]
    where: str | None = None
    checks: tuple[str, ...] = ()
    reduce: Reduction | None = None
    narrowed: tuple[tuple[str, str], ...] = ()
    signed: bool = False
    feeds: tuple[Feed, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the streams that it reads."""
        return tuple(f.name for f in self.feeds) or (self.stream,)


@dataclass(frozen=True)
class ConstantInput:
    """A relation that does not change with time: a table (ad hoc also the answers of a query, or a side stream)."""

    alias: str
    kind: str
    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class JoinEquality:
    """An equality between two FROM items of a join: their numbers, and DuckDB SQL over the columns of each."""

    left: int
    left_sql: str
    right: int
    right_sql: str

    def partner(self, item: int) -> int | None:
        """The item at the other side; None when the equality is not about `item`."""
        return self.right if item == self.left else self.left if item == self.right else None

    def side(self, item: int) -> str:
        """The SQL over the columns of an item."""
        return self.left_sql if item == self.left else self.right_sql


@dataclass(frozen=True)
class JoinPlan:
    """A join of windows and tables whose rows are valid while all their parts are.

    items: the name of each FROM item's input. sources: DuckDB SQL of each item, named as the query names it.
    on: what beside the equalities makes a joined row (of an inner join WHERE, too); where: what else the answer must
        pass; None: nothing.
    select: the select list over the items.
    """

    kind: Literal["inner", "left", "right", "full", "semi", "anti"]
    items: tuple[str, ...]
    sources: tuple[str, ...]
    equalities: tuple[JoinEquality, ...]
    on: str | None
    where: str | None
    select: str


@dataclass(frozen=True)
class Probe:
    """An input of which only rows matter that meet a row of the driver; see `millpond.language.probing`.

    alias: the input. condition: DuckDB SQL over columns of "driver" and of "probed": a row of the input for which it
        holds with no row of the driver at an instant has no part in the answer there.
    may: DuckDB SQL over h_lo, h_hi, d_lo, d_hi (TIMESTAMP): false where no event time of the input between h_lo and
        h_hi can meet a driver's between d_lo and d_hi; None: it may anywhere. time: the driver's event-time column.
    """

    alias: str
    condition: str
    may: str | None = None
    time: str = ""


@dataclass(frozen=True)
class Relational:
    """SQL over windowed streams: a relation at every instant, and what becomes of its changes.

    operator: what makes a stream of it; None: the relation itself.
    sql: DuckDB SQL over the inputs' aliases as they are at one instant.
    lifted: the same for many instants at once, over inputs with a column `_instant`, and over the instants themselves,
        called `instants`; None: DuckDB cannot lift it, and it is evaluated instant by instant.
    plan: 'elements': select and project over one window, row by row; 'joined': a join, from intervals of validity (its
        parts in `joined`); 'probed': recomputed where the input `driver` has rows, with the rows of `probes` that meet
        them; else 'recomputed' at each instant of change.
    """

    operator: Literal["istream", "dstream", "rstream"] | None
    inputs: tuple[RelationInput, ...]
    tables: tuple[ConstantInput, ...]
    sql: str
    lifted: str | None
    instants: str
    plan: Literal["elements", "joined", "recomputed", "probed"] = "recomputed"
    joined: JoinPlan | None = None
    driver: str = ""
    probes: tuple[Probe, ...] = ()

    def probe(self, alias: str) -> Probe | None:
        """What is asked of an input; None when all of its rows are at hand."""
        return next((p for p in self.probes if p.alias == alias), None)


@dataclass(frozen=True)
class OrderTerm:
    """One term of an ORDER BY: DuckDB SQL text, direction, place of NULLs."""

    expression: str
    descending: bool = False
    nulls_first: bool = False

    @property
    def sql(self) -> str:
        """The term as DuckDB SQL."""
        return (
            f"{self.expression} {'DESC' if self.descending else 'ASC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        )


@dataclass(frozen=True)
class Key:
    """A grouping key: its name in partial tables (k0, k1, …), DuckDB SQL over stream columns, DuckDB type."""

    name: str
    expression: str
    type: str


@dataclass(frozen=True)
class Aggregate:
    """One aggregate call of a query.

    name: how `select`, `having` and `order_by` of the bound query refer to it (a0, a1, …).
    function: canonical name, see `millpond.synopses.aggregates.FUNCTIONS`.
    arguments: DuckDB SQL over stream columns (empty for count(*)), with their DuckDB types beside.
    filter: DuckDB SQL of `FILTER (WHERE …)`.
    order: ORDER BY inside the call (list, string_agg, …), over stream columns.
    parameters: constants of the call as DuckDB literals (the fraction of a quantile, the separator of string_agg).
    type: DuckDB type of the result.
    range: RANGE of the window behind the call, microseconds; None: the query's window, which is the widest.
    measure: over rows with a weight: the 'estimate' of the aggregate over all rows, the 'low' and 'high' end of its
        95 % interval, how many rows were 'read', and which 'share' these are of all. '': the aggregate over the rows as
        they are.
    row: over a stream that takes rows back, the other columns (quoted) that a row is told by; else empty.
    """

    name: str
    function: str
    arguments: tuple[str, ...] = ()
    argument_types: tuple[str, ...] = ()
    distinct: bool = False
    filter: str | None = None
    order: tuple[OrderTerm, ...] = ()
    parameters: tuple[str, ...] = ()
    type: str = "BIGINT"
    range: int | None = None
    measure: Literal["", "estimate", "low", "high", "read", "share"] = ""
    row: tuple[str, ...] = ()


@dataclass(frozen=True)
class Output:
    """A column of an answer: its name, DuckDB SQL over k*, a*, window_start and window_end, its DuckDB type."""

    name: str
    expression: str
    type: str


@dataclass(frozen=True)
class Feed:
    """One stream of a union in FROM.

    stream: its id; name: as declared. columns: its columns, in the order of those of the union's first stream, by whose
    names the query knows them. on_time: only rows that were on time in their own stream enter (late='drop').
    """

    stream: int
    name: str
    columns: tuple[str, ...]
    on_time: bool = False


@dataclass(frozen=True)
class BoundQuery:
    """A SELECT over one stream after names and types have been resolved: what the engine plans from.

    A standing query has `window` (it ends at instants) or `row_window` (it ends with rows); or it is about a
    `relation`: then `stream` is the first of its streams, `select` has the answer's columns, nothing else is set.

    feeds: the streams of a union in FROM, of which `stream` is the first; empty: there is only `stream`.
    reduce: how much of the past its scans may leave out; the aggregates are estimates then, and `select` has columns
        that say how good they are.
    signed: rows of the stream with `op = '-'` take others back.

    All expressions are DuckDB SQL. `where` and the keys' and aggregates' expressions are over the stream's columns,
    quoted; `select`, `having` and `order_by` are over k*, a*, window_start, window_end. Without a window the whole
    stream is one group of rows (ad hoc only). With `grouped` false there are no keys and no aggregates, and `select`
    and `order_by` are over stream columns: plain rows (ad hoc only).

    narrowed: (quoted column, type) of columns of `stream` that have a wider type since the query was registered; it
        goes on with the type that it was bound to.
    """

    stream: str
    window: Window | None
    select: tuple[Output, ...]
    where: str | None = None
    keys: tuple[Key, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    having: str | None = None
    distinct: bool = False
    order_by: tuple[OrderTerm, ...] = ()
    limit: int | None = None
    offset: int = 0
    grouped: bool = True
    text: str = ""
    row_window: RowWindow | None = None
    relation: Relational | None = None
    feeds: tuple[Feed, ...] = ()
    reduce: Reduction | None = None
    narrowed: tuple[tuple[str, str], ...] = ()
    signed: bool = False


@dataclass(frozen=True)
class Interval:
    """One factor of a conjunction: the rows whose attribute is not NULL and lies between two bounds.

    attribute: DuckDB SQL over the stream's columns that gives the value to compare as BIGINT, DOUBLE or VARCHAR
        (`kind`). Attributes with the same text are the same attribute, whatever query asks. A factor that is no
        comparison of a column with a constant is an attribute of its own that is 1 where the factor holds.
    low, high: bounds in the attribute's own kind (timestamps: microseconds); None: unbounded on that side.
    null: the factor is IS NULL; the bounds don't count.

    >>> Interval('"mph"', "float", low=None, high=20.0, high_closed=False)  # mph < 20
    Interval(attribute='"mph"', kind='float', low=None, high=20.0, low_closed=True, high_closed=False, null=False)
    """

    attribute: str
    kind: Literal["integer", "float", "text"]
    low: int | float | str | None = None
    high: int | float | str | None = None
    low_closed: bool = True
    high_closed: bool = True
    null: bool = False


@dataclass(frozen=True)
class Edge:
    """One end of a BEGIN … END window.

    kind: 'open' (no bound: the whole retained past; up to NOW), 'constant' (`value` is an instant in microseconds),
        'now' (NOW plus `value` microseconds), 'rows' (BEGIN only: the last `value` rows of the stream up to NOW, in
        the stream's total order, before any condition).
    """

    kind: Literal["open", "constant", "now", "rows"] = "open"
    value: int = 0


@dataclass(frozen=True)
class Span:
    """A BEGIN … END window, closed at both ends; applied when the query is invoked."""

    begin: Edge = Edge()
    end: Edge = Edge("now")


@dataclass(frozen=True)
class Side:
    """One stream of a selection.

    where: DuckDB SQL over the stream's columns, quoted: all factors that concern this stream alone; None: every row.
    boxes: the same condition for the predicate index: alternatives that exclude each other, each a conjunction of
        intervals. `((),)` is every row, `()` is no row.
    """

    stream: str
    span: Span = Span()
    where: str | None = None
    boxes: tuple[tuple[Interval, ...], ...] = ((),)


@dataclass(frozen=True)
class JoinFactor:
    """`left op right`: DuckDB SQL over columns of side 0 and of side 1, a constant folded into one of them.

    kind: as of `Interval`; both sides give values of that kind. A NULL joins nothing.
    """

    left: str
    operator: Literal["=", "<", "<=", ">", ">="]
    right: str
    kind: Literal["integer", "float", "text"]


@dataclass(frozen=True)
class Selection:
    """A standing query over rows (PSoup's SELECT-FROM-WHERE with its BEGIN-END), names and types resolved.

    query: select list, groups and aggregates, DISTINCT, ORDER BY, LIMIT, as of an ad hoc query without window. With one
        side its expressions are over that stream's columns; with two they are over the joined row, whose columns are
        named "0.column" and "1.column", and `query.where` holds what is neither the join factor nor one side's own.
    """

    query: BoundQuery
    sides: tuple[Side, ...]
    join: JoinFactor | None = None


@dataclass(frozen=True)
class QueryOptions:
    """What `WITH (…)` behind CREATE QUERY says.

    since: None (windows open at registration), 'start', or an event time in microseconds.
    empty: whether windows without a tuple are reported.
    revise_for: how long behind progress closed windows can be revised, microseconds; None: the larger of one day and
        ten times RANGE.
    materialize: how much of a selection's answer is kept ready: 'partial' (which rows match), 'complete' (the answer of
        the current window), 'none', or 'auto' (decided by use and space while it runs).
    early: how often windows that are still open are answered speculatively, microseconds of clock time; None: never.
    flush: how the answers of a window that closes go out: 'at once', 'slow' (spread over `flush_delay` of clock time,
        microseconds), 'lazy' (all when that is over); in any case when `flush_windows` more windows have ended.
    every: how far apart the instants are that RSTREAM reports, microseconds.
    delay: how far behind progress windows are answered, microseconds: a derived stream of final answers waits for the
        last moment at which its rows could change. Not to be had by WITH.
    pairs: an answer that changes is reported with the one that it replaces (`op` is '='), for a derived stream that
        takes it back. Not to be had by WITH.
    state: how the panes of a window query are kept: partial aggregates ('eager'), tuples ('lazy'), or for each pane and
        group what is smaller ('adaptive').
    """

    since: Literal["start"] | int | None = None
    empty: Literal["skip", "report"] = "skip"
    revise_for: int | None = None
    materialize: Literal["auto", "partial", "complete", "none"] = "auto"
    early: int | None = None
    flush: Literal["at once", "lazy", "slow"] = "at once"
    flush_delay: int = 5 * SECOND
    flush_windows: int = 2
    every: int | None = None
    delay: int = 0
    pairs: bool = False
    state: Literal["eager", "lazy", "adaptive"] = "eager"


@dataclass(frozen=True)
class QueryDefinition:
    """A standing query as registered. retained: its stream has a retention, so that windows can be cut by it."""

    name: str
    query: BoundQuery
    options: QueryOptions = QueryOptions()
    id: int = 0
    version: int = 1
    text: str = ""
    retained: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of its answers as a table."""
        if self.query.relation is not None:
            return (
                Column("at", "TIMESTAMP"),
                *(Column(o.name, o.type) for o in self.query.select),
                *((Column("change", "VARCHAR"),) if self.query.relation.operator is None else ()),
                Column("revision", "BIGINT"),
                *((Column(STATUS, "VARCHAR"),) if self.options.early is not None else ()),
            )
        return (
            Column("window_start", "TIMESTAMP"),
            Column("window_end", "TIMESTAMP"),
            *((NUMBER,) if self.query.row_window is not None else ()),
            *(Column(o.name, o.type) for o in self.query.select),
            Column("revision", "BIGINT"),
            *((Column(STATUS, "VARCHAR"),) if self.options.early is not None else ()),
            *((Column(COVERED, "TIMESTAMP"),) if self.retained else ()),
            *((Column(EXACT, "BOOLEAN"),) if self.query.reduce is not None and self.query.reduce.samples else ()),
        )


def to_json(value: Any) -> Any:
    """A dataclass of this module as JSON-ready dicts and lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in value]
    if isinstance(value, dict):
        return {k: to_json(v) for k, v in value.items()}
    return value


def from_json(kind: type[T], value: Any) -> T:
    """The dataclass `kind` from what `to_json` gave; unknown fields are ignored, missing ones take their default."""
    hints = _hints(typing.cast(Any, kind))
    return kind(**{k: _read(hints[k], v) for k, v in value.items() if k in hints})


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)  # evaluates every annotation: far dearer than reading a value


def _read(hint: Any, value: Any) -> Any:
    origin = typing.get_origin(hint)
    if value is None or origin is Literal:
        return value
    if origin is types.UnionType or origin is typing.Union:
        inner = [a for a in typing.get_args(hint) if a is not type(None) and typing.get_origin(a) is not Literal]
        return _read(inner[0], value) if len(inner) == 1 and dataclasses.is_dataclass(inner[0]) else value
    if origin is tuple:
        return tuple(_read(typing.get_args(hint)[0], v) for v in value)
    if origin is dict:
        return {k: _read(typing.get_args(hint)[1], v) for k, v in value.items()}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_json(hint, value)
    return value


__all__ = [
    "ARRIVAL",
    "COVERED",
    "DAY",
    "EXACT",
    "HOUR",
    "MICROSECOND",
    "MINUTE",
    "NUMBER",
    "SECOND",
    "STATUS",
    "WEIGHT",
    "Aggregate",
    "BoundQuery",
    "Column",
    "ConstantInput",
    "Derivation",
    "Edge",
    "Feed",
    "Interval",
    "JoinFactor",
    "Key",
    "KindDefinition",
    "Landmark",
    "OrderTerm",
    "Output",
    "Probe",
    "QueryDefinition",
    "QueryOptions",
    "Reduction",
    "RelationInput",
    "RelationWindow",
    "Relational",
    "RowWindow",
    "Selection",
    "Side",
    "Span",
    "StreamDefinition",
    "StreamOptions",
    "TableDefinition",
    "Window",
    "from_json",
    "to_json",
]
