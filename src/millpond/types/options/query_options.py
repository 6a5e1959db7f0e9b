"""The options of standing queries: what `WITH (…)` behind CREATE QUERY, or a keyword of `Pond.register`, says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from millpond.types.columns import SECOND
from millpond.types.options.declared import option
from millpond.types.options.value_kinds import Choice, Fills, Number, Span, Start, Whole, fills_of

_STANDING = ("windows", "relations", "pairs")
_ROWS = Whole("a number of rows such as 1000000", most=999_999_999)


@dataclass(frozen=True)
class QueryOptions:
    """The options of a standing query; spans of time and instants are microseconds.

    delay: how far behind progress windows are answered: a derived stream of final answers waits for the last moment at
        which its rows could change. Not to be had by WITH.
    pairs: an answer that changes is reported with the one that it replaces (`op` is '='), for a derived stream that
        takes it back. Not to be had by WITH.
    """

    since: Literal["start"] | int | None = option(
        None,
        Start(),
        "from when on windows are answered: those open at registration, or from there",
        derived=True,
        of=_STANDING,
    )
    empty: Literal["skip", "report"] = option(
        "skip",
        Choice(("skip", "report")),
        "whether windows without a tuple are reported, of groups each that is known",
        derived=True,
        of=("windows",),
    )
    known_for: int | None = option(
        None,
        Span("7 days"),
        "how long a group without a row is known, in whole RANGEs, and how long a value fills windows without one; by"
        " default the larger of a day and ten RANGEs",
        derived=True,
        of=("windows",),
    )
    fill: str | None = option(
        None,
        Fills(),
        "what aggregates are in windows without a row, where they are NULL: null, 0, what they were in the previous"
        " window with one, or on the line from there to the next; and of columns by name",
        derived=True,
        of=("windows",),
    )
    revise_for: int | None = option(
        None,
        Span("2 days", zero=True),
        "how long behind the watermark what windows are made of is kept ready for late rows; by default the larger of a"
        " day and ten RANGEs",
        live=True,
        derived=True,
        of=_STANDING,
    )
    beyond: Literal["recompute", "drop"] = option(
        "recompute",
        Choice(("recompute", "drop")),
        "what becomes of answers when rows come that are later than revise_for: they are computed anew from the"
        " archive, or leave such rows out",
        derived=True,
        of=_STANDING,
    )
    materialize: Literal["auto", "partial", "complete", "none"] = option(
        "auto",
        Choice(("auto", "partial", "complete", "none")),
        "how much of a row query's answer is kept ready: which rows match, the answer of the current window, nothing,"
        " or what use and space say while it runs",
        of=("rows",),
    )
    early: int | None = option(
        None,
        Span("10s"),
        "how often windows that are still open are answered, of clock time; by default never; ALTER QUERY changes how"
        " often, not whether",
        live=True,
        of=("windows", "relations"),
    )
    flush: Literal["at once", "lazy", "slow"] = option(
        "at once",
        Choice(("at once", "lazy", "slow")),
        "how the answers of a window that closes go out: at once, spread over flush_delay, or all when that is over",
        live=True,
        of=("windows",),
    )
    flush_delay: int = option(5 * SECOND, Span("5s"), "how long that takes, of clock time", live=True, of=("windows",))
    flush_windows: int = option(
        2,
        Whole("a number of windows such as 2", most=999_999_999),
        "how many more windows have ended when answers go out in any case",
        live=True,
        of=("windows",),
    )
    every: int | None = option(
        None, Span("1 s"), "how far apart the instants are that RSTREAM reports", derived=True, of=("relations",)
    )
    delay: int = 0
    pairs: bool = False
    state: Literal["eager", "lazy", "adaptive"] = option(
        "eager",
        Choice(("eager", "lazy", "adaptive")),
        "how the panes of windows are kept: partial aggregates, tuples, or for each pane and group what is smaller",
        of=("windows",),
    )
    held_rows: int = option(
        100_000_000,
        _ROWS,
        "how many rows the windows of a relation may hold in one shard; more make it fail",
        of=("relations", "pairs"),
    )
    memory_rows: int | None = option(
        None,
        _ROWS,
        "how many rows of each stream of a relation a shard keeps in memory, where others are mapped from disk; by"
        " default all",
        of=("relations", "pairs"),
    )
    adapt: Literal["a_greedy", "sweep", "independent", "local_swaps", "auto", "off"] = option(
        "a_greedy",
        Choice(("a_greedy", "sweep", "independent", "local_swaps", "auto", "off")),
        "how the order of filters with registered functions is kept; off: as they are written",
        live=True,
        derived=True,
        of=_STANDING,
    )
    adapt_probability: float | None = option(
        None,
        Number("a share of the dropped rows such as 0.01", most=1),
        "the share of the dropped rows that are profiled; by default the way's own",
        live=True,
        derived=True,
        of=_STANDING,
    )
    adapt_window: int | None = option(
        None,
        Whole("a number of profile tuples such as 1000", most=999_999_999),
        "how many profile tuples count; by default the way's own",
        live=True,
        derived=True,
        of=_STANDING,
    )
    adapt_alpha: float | None = option(
        None,
        Number("a factor up to 1 such as 0.9", most=1, above=True),
        "the thrashing factor; by default the way's own",
        live=True,
        derived=True,
        of=_STANDING,
    )
    adapt_budget: float = option(
        0.05,
        Number("a share of the time such as 0.05", most=1),
        "the share of the time of filters that profiling may take",
        live=True,
        derived=True,
        of=_STANDING,
    )

    @property
    def ahead(self) -> bool:
        """Whether windows without a row may be answered from later ones."""
        return self.fill is not None and "linear" in fills_of(self.fill).values()

    @property
    def limited(self) -> bool:
        """Whether answers leave out rows that come later than `revise_for`, as the user wants it."""
        return self.beyond == "drop" or bool(self.delay)

    @property
    def ordering(self) -> tuple[Any, ...]:
        """What is said of the order of filters."""
        return self.adapt, self.adapt_probability, self.adapt_window, self.adapt_alpha, self.adapt_budget
