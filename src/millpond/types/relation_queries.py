"""CQL: windows without SLIDE, and SQL over the relations that they make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from millpond.support.sql import text_literal
from millpond.types.columns import Column
from millpond.types.json_records import TAG, Upgraded, Variant, Written
from millpond.types.outputs import Feed
from millpond.types.reduction_forms import Reduction
from millpond.types.sql_expressions import Expression, calls_of_statement
from millpond.types.window_definitions import RelationWindow


@dataclass(frozen=True)
class RelationInput:
    """A windowed stream in the FROM of a relational query.

    alias: what the SQL calls it. columns: those of the stream that the query needs. where: over the stream's columns,
        pushed below the window; None: every row. checks: expressions that are evaluated when a row arrives, so that a
        row on which they fail goes to the dead letters. narrowed: see `StreamQuery`.
    mark: a condition over the stream's columns that chooses among the rows of a window that ends with rows, evaluated
        when a row arrives and kept with it as `HOLDS`; None: there is none, or the SQL has it.
    signed: rows with `op = '-'` take others back. feeds: the streams of a union, of which `stream` is the first;
        empty: there is only `stream`.
    """

    alias: str
    stream: str
    window: RelationWindow
    columns: tuple[Column, ...]
    where: Expression | None = None
    checks: tuple[Expression, ...] = ()
    reduce: Reduction | None = None
    narrowed: tuple[tuple[str, str], ...] = ()
    signed: bool = False
    feeds: tuple[Feed, ...] = ()
    mark: Expression | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the streams that it reads."""
        return tuple(f.name for f in self.feeds) or (self.stream,)


@dataclass(frozen=True)
class NamedInput(Variant):
    """A relation in FROM by its name. Of a standing query it is a table; ad hoc it may be anything that is there.

    alias: what the SQL calls it. name: of the table, query or stream, as declared. columns: what the SQL expects, with
        DuckDB types, in this order.
    by_windows: its rows are of windows, so that some need not be read.
    """

    by_windows: ClassVar[bool] = False

    alias: str
    name: str
    columns: tuple[Column, ...]

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """An input from before it said its kind by its type."""
        kinds = {
            "table": "TableInput",
            "query": "AnswersInput",
            "revisions": "RevisionsInput",
            "final": "FinalInput",
            "late": "LateInput",
            "dead": "DeadInput",
        }
        return {**value, TAG: kinds[value["kind"]]}


@dataclass(frozen=True)
class TableInput(NamedInput):
    """The rows of a table."""


@dataclass(frozen=True)
class AnswersInput(NamedInput):
    """The latest answers of a query."""

    by_windows: ClassVar[bool] = True


@dataclass(frozen=True)
class RevisionsInput(NamedInput):
    """All that a query has answered: `FROM q ALL REVISIONS`."""

    by_windows: ClassVar[bool] = True


@dataclass(frozen=True)
class FinalInput(NamedInput):
    """Those answers of a query that can no longer change: `FROM q FINAL`."""


@dataclass(frozen=True)
class LateInput(NamedInput):
    """The rows of a stream that were late: `FROM late(s)`."""


@dataclass(frozen=True)
class DeadInput(NamedInput):
    """The dead letters of a stream: `FROM dead(s)`."""


#: What does not change while a query is answered.
ConstantInput = TableInput | AnswersInput | RevisionsInput | FinalInput | LateInput | DeadInput


@dataclass(frozen=True)
class TableStretch:
    """Which versions of its tables a query sees at instants from `since` on (microseconds). versions: by table id."""

    since: int
    versions: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TableRef:
    """A table that a query reads. alias: what its SQL calls it."""

    alias: str
    name: str
    id: int


@dataclass(frozen=True)
class Lookup:
    """Tables that each row of a stream is joined with before it enters a window.

    alias: what the SQL calls the rows. sql: DuckDB SQL over the rows (columns `needs` and their number, `number`) and
        the tables: for each joined row that number and `columns`. columns: of tables, as joined rows have them.
    one: a row meets one row of the tables at most, and stays, marked by the column `met`, where it meets none; for
        windows that count rows.
    said: the joins in words. seen: in a job, which versions of the tables rows see, by their event time; else empty.
    calls: the registered functions that `sql` calls, by reference; None: it was bound before that was written down.
    """

    alias: str
    tables: tuple[TableRef, ...]
    sql: str
    columns: tuple[Column, ...]
    needs: tuple[str, ...]
    number: str
    one: bool = False
    met: str = ""
    said: str = ""
    seen: tuple[TableStretch, ...] = ()
    calls: tuple[str, ...] | None = field(default=None, compare=False)

    @property
    def registered(self) -> tuple[str, ...]:
        """The registered functions that `sql` calls, by reference."""
        return calls_of_statement(self.sql) if self.calls is None else self.calls


@dataclass(frozen=True)
class JoinEquality(Upgraded):
    """An equality between two FROM items of a join: their numbers, and what is equal over the columns of each."""

    left: int
    left_side: Expression
    right: int
    right_side: Expression

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Sides were SQL alone."""
        if "left_sql" not in value:
            return value
        return {**value, "left_side": value["left_sql"], "right_side": value["right_sql"]}

    def partner(self, item: int) -> int | None:
        """The item at the other side; None when the equality is not about `item`."""
        return self.right if item == self.left else self.left if item == self.right else None

    def side(self, item: int) -> Expression:
        """What is equal, over the columns of an item."""
        return self.left_side if item == self.left else self.right_side


@dataclass(frozen=True)
class JoinCondition:
    """A condition of a join that is no equality of two FROM items: the items that it is about, and DuckDB SQL."""

    items: tuple[int, ...]
    sql: str


#: What rows are spread by that every shard has.
EVERYWHERE = Expression("'everywhere'", type="VARCHAR")


def together(streams: Iterable[str]) -> Expression:
    """What rows of some streams are spread by that are in one shard: a constant, so that they all have one key."""
    return Expression(text_literal(f"together {', '.join(sorted(set(streams)))}"), type="VARCHAR")


def are_together(spread: Expression | None) -> bool:
    """Whether rows that are spread by it are all in one shard (`JoinPlan.spread`)."""
    return spread is not None and not spread.columns and spread != EVERYWHERE


def _spread_read(spread: Sequence[Any]) -> list[Any]:
    """What rows are spread by, which was SQL alone, '' where they are not."""
    return [each or None for each in spread]


class _Salting(Variant):
    """How rows of a frequent key are placed.

    splits: otherwise than those of other keys. copied: in every shard.
    """

    splits: ClassVar[bool] = True
    copied: ClassVar[bool] = False


@dataclass(frozen=True)
class NotSalted(_Salting):
    """As those of other keys."""

    splits: ClassVar[bool] = False


@dataclass(frozen=True)
class SaltedBy(_Salting):
    """By the hash of a column, quoted."""

    column: str

    def __str__(self) -> str:
        return f"its rows are salted over the shards by {self.column}"


@dataclass(frozen=True)
class Copied(_Salting):
    """Every shard has them."""

    copied: ClassVar[bool] = True

    def __str__(self) -> str:
        return "every shard has its rows"


#: How rows of a frequent key are placed.
Salting = NotSalted | SaltedBy | Copied


def salting_read(salting: Any) -> Any:
    """How they are placed: it was a text (a column, 'copies', '' where that is as usual), and had other names."""
    if not isinstance(salting, str):
        named = {"NotDealt": "NotSalted", "DealtBy": "SaltedBy"}
        return {**salting, TAG: named.get(salting[TAG], salting[TAG])}
    return {"": {TAG: "NotSalted"}, "copies": {TAG: "Copied"}}.get(salting, {TAG: "SaltedBy", "column": salting})


@dataclass(frozen=True)
class JoinKind(Written):
    """Which rows a join gives; it is written as its name.

    alone: the items whose rows are reported, or left out, for having no partner; only an inner join has none.
    every: each pair of rows that meet is a row of the answer.
    first_only: rows of the answer are rows of the first item.
    partnered: these are the rows that have a partner; else those that have none.
    bare: a row without a partner stands beside NULLs where not every pair is a row of the answer (ASOF LEFT).
    """

    name: str
    alone: tuple[int, ...] = ()
    every: bool = True
    first_only: bool = False
    partnered: bool = False
    bare: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def inner(self) -> bool:
        """Whether a row of the answer is a row of each item."""
        return not self.alone

    @property
    def latest(self) -> bool:
        """Whether a row of the first item is joined with the latest of its partners (ASOF, of PAIRS alone)."""
        return not self.every and not self.first_only

    def written(self) -> str:
        """See `Written`."""
        return self.name

    @classmethod
    def read(cls, value: Any) -> Any:
        """See `Written`."""
        return JOIN_KINDS[value]


INNER = JoinKind("inner")
LEFT = JoinKind("left", alone=(0,))
RIGHT = JoinKind("right", alone=(1,))
FULL = JoinKind("full", alone=(0, 1))
SEMI = JoinKind("semi", alone=(0,), every=False, first_only=True, partnered=True)
ANTI = JoinKind("anti", alone=(0,), every=False, first_only=True)
ASOF = JoinKind("asof", alone=(0,), every=False)
ASOF_LEFT = JoinKind("asof left", alone=(0,), every=False, bare=True)

#: By name.
JOIN_KINDS = {kind.name: kind for kind in (INNER, LEFT, RIGHT, FULL, SEMI, ANTI, ASOF, ASOF_LEFT)}


@dataclass(frozen=True)
class JoinPlan(Upgraded):
    """A join of windows and tables whose rows are valid while all their parts are.

    items: the name of each FROM item's input. sources: DuckDB SQL of each item, named as the query names it.
    on: what beside the equalities makes a joined row (of an inner join WHERE, too); where: what else the answer must
        pass; None: nothing.
    select: the select list over the items.
    spread: of each item, what is equal for rows that meet, by which they can be spread over shards (None: a table);
        empty: they must stay together.
    plain: the item and the column of each output, where the select list has nothing but columns that are stored as they
        are shown; else empty.
    salting: of each item, how rows of a frequent key are placed; empty: as those of other keys.
    conditions: what `on` consists of. names: of the items, as the query calls them.
    alike: numbers of equalities that make columns of three items or more all equal, so that any two of them meet.
    hashes: of each key that some items share and the answer shows, by what the rows of these items can be spread over
        shards if all shards have the rows of the others; None for those.
    """

    kind: JoinKind
    items: tuple[str, ...]
    sources: tuple[str, ...]
    equalities: tuple[JoinEquality, ...]
    on: str | None
    where: str | None
    select: str
    spread: tuple[Expression | None, ...] = ()
    plain: tuple[tuple[int, str], ...] = ()
    salting: tuple[Salting, ...] = ()
    conditions: tuple[JoinCondition, ...] = ()
    names: tuple[str, ...] = ()
    alike: tuple[tuple[int, ...], ...] = ()
    hashes: tuple[tuple[Expression | None, ...], ...] = ()

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """What rows are spread by was SQL alone, and how they are salted was a text."""
        hashes = [_spread_read(each) for each in value.get("hashes", ())]
        salting = [salting_read(each) for each in value.get("salting", value.get("deal", ()))]
        return {**value, "spread": _spread_read(value.get("spread", ())), "hashes": hashes, "salting": salting}


class _GroupArgument(Variant):
    """What aggregates over a join look at in each joined row."""

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """The kind was a text."""
        return {**value, TAG: f"{value['kind'].capitalize()}Argument"}


@dataclass(frozen=True)
class CountedArgument(_GroupArgument):
    """Nothing but whether it is NULL."""


@dataclass(frozen=True)
class WholeArgument(_GroupArgument):
    """Whole numbers, which are added up."""


@dataclass(frozen=True)
class DecimalArgument(_GroupArgument):
    """Decimals, which are added up. digits: behind the point."""

    digits: int


@dataclass(frozen=True)
class FloatingArgument(_GroupArgument):
    """Floating numbers, which are added up exactly."""


#: What aggregates over a join look at in each joined row.
GroupArgument = CountedArgument | WholeArgument | DecimalArgument | FloatingArgument


@dataclass(frozen=True)
class Grouping:
    """Aggregates over a join that follow from the joined rows that enter and leave.

    keys: types of what joined rows are grouped by, the first columns of the join. arguments: the columns behind them.
    select, having: DuckDB SQL over k0, k1, … (keys), n (joined rows of a group), and of each argument v0, v1, … (how
        many are not NULL), s0, s1, … (their sum) and m0, m1, … (their mean).
    whole: there is one group, which is there without rows, too.
    placed: DuckDB SQL over the keys that is equal to that by which joined rows are spread over shards; '': they are in
        one.
    """

    keys: tuple[str, ...]
    arguments: tuple[GroupArgument, ...]
    select: tuple[str, ...]
    having: str | None = None
    whole: bool = False
    placed: str = ""


@dataclass(frozen=True)
class Probe:
    """An input of which only rows matter that meet a row of the driver; see `millpond.language.plan.probed_inputs`.

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
class Elements(Variant):
    """Select and project over one window, row by row.

    rowwise: with tables: DuckDB SQL over rows of the window and the tables, with a column `_instant` that comes first
        in what it gives; None: there are no tables.
    """

    rowwise: str | None = None


@dataclass(frozen=True)
class Joined(Variant):
    """A join, from the intervals of validity of joined rows."""

    join: JoinPlan


@dataclass(frozen=True)
class Grouped(Variant):
    """Aggregates over a join, by the joined rows that enter and leave it."""

    join: JoinPlan
    grouping: Grouping


@dataclass(frozen=True)
class Driven(Variant):
    """Recomputed where the input `driver` has rows, with the rows of `probes` that meet them."""

    driver: str
    probes: tuple[Probe, ...]


@dataclass(frozen=True)
class Recomputed(Variant):
    """Recomputed at each instant of change. reason: why, of aggregates over a join; '': there are none."""

    reason: str = ""


#: How the answer of a query of CQL follows from its inputs.
RelationPlan = Elements | Joined | Grouped | Driven | Recomputed
