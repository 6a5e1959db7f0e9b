"""Queries of CQL: over relations that change with time, and of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

from millpond.types.columns import Column
from millpond.types.queries.answer_shapes import Answer
from millpond.types.reduction_forms import Reduction
from millpond.types.relation_queries import (
    ConstantInput,
    Driven,
    Elements,
    Grouped,
    Joined,
    JoinPlan,
    Probe,
    RelationInput,
    RelationPlan,
)
from millpond.types.sql_expressions import calls_of_statement
from millpond.types.window_definitions import (
    TimedWindow,
)


@dataclass(frozen=True, kw_only=True)
class Relational(Answer):
    """What queries of CQL have in common: SQL over windowed streams and tables as they are at an instant.

    sql: over the inputs' aliases as they are at one instant.
    lifted: the same for many instants at once, over inputs with a column `_instant`, and over the instants themselves,
        called `instants`; None: DuckDB cannot lift it, and it is evaluated instant by instant.
    calls: the registered functions that `sql` calls, by reference; None: it was bound before that was written down.
    keeps_windows: what is kept of an input follows from its own window; else from the progress of others, too.
    """

    time_columns: ClassVar[tuple[Column, ...]] = (Column("at", "TIMESTAMP"),)
    end_column: ClassVar[str] = "at"
    of_instants: ClassVar[Literal[True]] = True
    as_retained: ClassVar[Literal[False]] = False
    keyed: ClassVar[bool] = False
    keeps_windows: ClassVar[bool] = True

    inputs: tuple[RelationInput, ...]
    tables: tuple[ConstantInput, ...]
    sql: str
    lifted: str | None
    instants: str
    calls: tuple[str, ...] | None = field(default=None, compare=False)

    @property
    def registered(self) -> frozenset[str]:
        """The registered functions that it calls, by reference."""
        stated = calls_of_statement(self.sql) if self.calls is None else self.calls
        return super().registered.union(stated)

    @property
    def stream(self) -> str:
        """The first of its streams."""
        return self.inputs[0].stream

    @property
    def names_by_input(self) -> tuple[tuple[str, ...], ...]:
        """See `Answer`."""
        return tuple(item.names for item in self.inputs)

    @property
    def table_names(self) -> tuple[str, ...]:
        """The names of its tables."""
        return tuple(t.name for t in self.tables)

    @property
    def reach(self) -> int:
        """See `Answer`."""
        return self.longest

    @property
    def longest(self) -> int:
        """See `Answer`."""
        return max((item.window.reach or 0 for item in self.inputs), default=0)

    @property
    def change_columns(self) -> tuple[Column, ...]:
        """See `Answer`: of a relation, whether a row comes or goes."""
        return () if self.makes_stream else (Column("change", "VARCHAR"),)

    @property
    def makes_stream(self) -> bool:
        """Whether its answer is a stream; else it is a relation."""
        return True

    @property
    def repeats(self) -> bool:
        """Whether it reports all of a relation again and again."""
        return False

    @property
    def adds_only(self) -> bool:
        """Whether no row of its answer is ever taken back, unless one is that it is made of."""
        return False

    @property
    def in_order(self) -> bool:
        """Whether its SQL gives all rows their places."""
        return False

    @property
    def forgets(self) -> bool:
        """Whether it needs no row again that it has reported, unless the row leaves its window."""
        return False

    @property
    def probes(self) -> tuple[Probe, ...]:
        """What is asked of inputs of which only rows matter that meet another input's."""
        return ()

    @property
    def joined(self) -> JoinPlan | None:
        """The join from whose rows' validity it follows, if it does."""
        return None

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """See `Answer`."""
        return tuple(item.reduce for item in self.inputs if item.reduce is not None)

    def with_narrowed(self, narrowed: Sequence[tuple[tuple[str, str], ...]]) -> Self:
        """See `Answer`."""
        inputs = zip(self.inputs, narrowed, strict=True)
        return replace(self, inputs=tuple(replace(item, narrowed=each) for item, each in inputs))

    def with_joined(self, join: JoinPlan) -> Self:
        """The query with another plan of its join; only of one that is kept by it."""
        raise TypeError("it is not kept by a join")

    def probe(self, alias: str) -> Probe | None:
        """What is asked of an input; None when all of its rows are at hand."""
        return next((p for p in self.probes if p.alias == alias), None)


@dataclass(frozen=True, kw_only=True)
class RelationQuery(Relational):
    """A relation at every instant, and what becomes of its changes.

    operator: what makes a stream of it; None: the answer is the relation itself.
    plan: how it is kept.
    ordered: `sql` ends with ORDER BY, by which all rows have their places; who asks for the relation sees it so.
    apart: columns of inputs that rows of the answer show unchanged: the input's alias, the column, its place in the
        answer. Rows with one value there give the rows of the answer with the same value, whatever the others are; of
        a join if its equalities say so of all inputs.
    """

    operator: Literal["istream", "dstream", "rstream"] | None
    plan: RelationPlan
    ordered: bool = False
    apart: tuple[tuple[str, str, int], ...] = field(default=(), compare=False)

    @property
    def makes_stream(self) -> bool:
        """Whether its answer is a stream."""
        return self.operator is not None

    @property
    def repeats(self) -> bool:
        """See `Relational`."""
        return self.operator == "rstream"

    @property
    def in_order(self) -> bool:
        """See `Relational`."""
        return self.ordered

    @property
    def forgets(self) -> bool:
        """See `Relational`: ISTREAM of select and project."""
        return isinstance(self.plan, Elements) and self.operator == "istream"

    @property
    def driver(self) -> str:
        """The input whose rows say where the answer may change; '': every input's do."""
        return self.plan.driver if isinstance(self.plan, Driven) else ""

    @property
    def probes(self) -> tuple[Probe, ...]:
        """What is asked of inputs of which only rows matter that meet the driver's."""
        return self.plan.probes if isinstance(self.plan, Driven) else ()

    @property
    def joined(self) -> JoinPlan | None:
        """The join whose rows it follows from, if it does."""
        return self.plan.join if isinstance(self.plan, Joined | Grouped) else None

    def with_joined(self, join: JoinPlan) -> Self:
        """See `Relational`."""
        if not isinstance(self.plan, Joined | Grouped):
            return super().with_joined(join)
        return replace(self, plan=replace(self.plan, join=join))


@dataclass(frozen=True, kw_only=True)
class PairsQuery(Relational):
    """A join whose rows are a stream, each as soon as it is certain (PAIRS)."""

    keeps_windows: ClassVar[bool] = False

    join: JoinPlan

    @property
    def adds_only(self) -> bool:
        """See `Relational`: a row that has no partner may get one."""
        return self.join.kind.inner

    @property
    def windows(self) -> tuple[TimedWindow, ...]:
        """The windows of its inputs, which say how long a row may be joined."""
        return tuple(i.window for i in self.inputs if isinstance(i.window, TimedWindow))
