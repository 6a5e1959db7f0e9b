"""What all queries have: the shape of their answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from millpond.types.columns import DAY, Column
from millpond.types.json_records import TAG, Variant
from millpond.types.options.query_options import QueryOptions
from millpond.types.outputs import OrderTerm, Output
from millpond.types.reduction_forms import Reduction
from millpond.types.sql_expressions import registered_in


@dataclass(frozen=True, kw_only=True)
class Answer(Variant, ABC):
    """What all queries have: the columns of their answer, and the text that they were written as.

    time_columns: stand in front of those of `select`, and say of which window or instant a row of the answer is.
    end_column: of them the one that answers are put in order, asked for and settled by; '': the answer has no times.
    in_register: it stands in the register of row queries; else it has an operator of its own.
    of_instants: what it answers holds at instants; else it is of windows.
    numbered: windows have numbers, which count from the first row that there is.
    adds_up: the answer follows from what intervals of event time add up to, so that REDUCE may see the past as sums.
    as_retained: it sees rows alone; else a summary may stand for those that are past their retention.
    keyed: rows of the answer have keys, and a revision takes the place of the row that has the same; else the answer
        is a bag, and revisions add rows to it and take others out.
    holds_end: windows hold the instant of their end, so that one is over when the watermark is beyond it.
    ends_now: windows end with rows, so that for who asks now one is over that ends with the newest.
    """

    time_columns: ClassVar[tuple[Column, ...]] = ()
    end_column: ClassVar[str] = ""
    in_register: ClassVar[Literal[False]] = False
    of_instants: ClassVar[bool] = False
    numbered: ClassVar[bool] = False
    adds_up: ClassVar[bool] = False
    as_retained: ClassVar[bool] = False
    keyed: ClassVar[bool] = True
    holds_end: ClassVar[bool] = False
    ends_now: ClassVar[bool] = False

    select: tuple[Output, ...]
    text: str = ""

    @property
    def change_columns(self) -> tuple[Column, ...]:
        """Columns behind those of `select` that say what a row does to the answer."""
        return ()

    @property
    def identity(self) -> tuple[Column, ...]:
        """Hidden columns that, with `end_column`, are the keys of the rows of its answers, where they have keys."""
        return ()

    @property
    def sorted_by(self) -> tuple[OrderTerm, ...]:
        """How rows of one end are sorted."""
        return ()

    @property
    @abstractmethod
    def names_by_input(self) -> tuple[tuple[str, ...], ...]:
        """The names of the streams that it reads, by input: several of a union."""

    @property
    def stream_names(self) -> tuple[str, ...]:
        """The names of the streams that it reads."""
        return tuple(name for names in self.names_by_input for name in names)

    @property
    def union_names(self) -> tuple[str, ...]:
        """The streams of a union in FROM, as they are written there."""
        return ()

    @property
    def table_names(self) -> tuple[str, ...]:
        """The names of the tables that it reads."""
        return ()

    @property
    def reach(self) -> int:
        """How far rows of its streams may lie apart that come into one row, as windows of time say it (µs)."""
        return 0

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """What it says of how much of its streams' past is read."""
        return ()

    @property
    def window_kind(self) -> str | None:
        """The reference of the registered kind that its windows are of; None: they are of none."""
        return None

    @abstractmethod
    def with_narrowed(self, narrowed: Sequence[tuple[tuple[str, str], ...]]) -> Self:
        """The query with what it knows of columns that became wider (`StreamQuery.narrowed`), by input."""

    @property
    def longest(self) -> int:
        """How long its windows are at most, microseconds; 0: that is not a matter of time."""
        return 0

    def revised_for(self, options: QueryOptions) -> int:
        """How long behind progress its answers can be revised (SEMANTICS, late rows), microseconds."""
        return max(DAY, 10 * self.longest) if options.revise_for is None else options.revise_for

    @property
    def partial_for(self) -> int:
        """How long windows may lack rows behind the first one that is there, microseconds; 0: that is not known."""
        return 0

    @property
    def reduced(self) -> bool:
        """Whether its scans may leave out some of the past."""
        return False

    @property
    def estimated(self) -> bool:
        """Whether its answers are made of rows that stand for others."""
        return False

    @property
    def registered(self) -> frozenset[str]:
        """The registered functions that it calls, by reference."""
        return registered_in(self)

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """A query from before there were several classes of them: what it was not said by NULL."""
        if (relation := value.get("relation")) is not None:
            return _upgraded_relational(relation) | {name: value.get(name, "") for name in ("select", "text")}
        if value.get("row_window") is not None:
            return {**value, TAG: "RowWindowQuery", "window": value["row_window"]}
        if value.get("window") is not None:
            return {**value, TAG: "WindowQuery"}
        return {**value, TAG: "GroupScan" if value.get("grouped", True) else "RowScan"}


def _upgraded_relational(value: dict[str, Any]) -> dict[str, Any]:
    """What was the field `relation` of a query."""
    plan, join, reason = value.get("plan", "recomputed"), value.get("joined"), value.get("reason", "")
    if plan == "paired":
        return {**value, TAG: "PairsQuery", "join": join}
    plans: dict[str, dict[str, Any]] = {
        "elements": {TAG: "Elements", "rowwise": value.get("rowwise")},
        "joined": {TAG: "Joined", "join": join},
        "grouped": {TAG: "Grouped", "join": join, "grouping": value.get("grouping")},
        "probed": {TAG: "Driven", "driver": value.get("driver", ""), "probes": value.get("probes", ())},
        "recomputed": {TAG: "Recomputed", "reason": reason},
    }
    return {**value, TAG: "RelationQuery", "plan": plans[plan]}
