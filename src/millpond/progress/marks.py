"""Marks: statements that certain rows will not come any more (punctuation; Li 2008, 1.2, Tucker), as values.

A mark has a pattern for some columns of a stream; a column without one matches anything (the wildcard). It says that no
later row matches **all** of its patterns. `Below(v)` is the strict form: nothing with a value below v follows, v itself
may (Li's E2).

    >>> linear(60).covers({}, 60), linear(60).covers({}, 61)
    (True, False)
    >>> p1 = Mark({"srcIP": Constant("202.3.12.4")})  # group-wise: everything of one address is there
    >>> p1.covers({"srcIP": "202.3.12.4"}, 10**9), p1.covers({"srcIP": "10.0.0.1"}, 10)
    (True, False)

`Meld` puts the marks of several inputs together, `Describe` rolls them up to what a consumer needs, `project` maps them
into the schema of a projection. All are pure: they return a new value and the marks to hand on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

#: The column that bounds stand on, in marks of this module's helpers.
TIME = "ts"

Value = str | int | float | bool | None


@dataclass(frozen=True)
class Constant:
    """Matches one value."""

    value: Value

    def matches(self, value: Value) -> bool:
        """Whether a value is that one; NULL matches NULL, as it is a group of its own."""
        return value == self.value


@dataclass(frozen=True)
class Below:
    """Matches values below a bound, not the bound itself."""

    bound: int

    def matches(self, value: Value) -> bool:
        """Whether a value lies below the bound."""
        return isinstance(value, (int, float)) and value < self.bound


Pattern = Constant | Below


@dataclass(frozen=True)
class Mark:
    """No later row matches all of these patterns, by column; a column that is not named matches anything."""

    patterns: Mapping[str, Pattern] = field(default_factory=dict)

    def matches(self, row: Mapping[str, Value]) -> bool:
        """Whether a row is one of those that were said not to come: it breaks the mark, and is late by definition."""
        return all(p.matches(row.get(c)) for c, p in self.patterns.items())

    def covers(self, constants: Mapping[str, Value], end: int, time: str = TIME) -> bool:
        """Whether all rows of an extent are there: those with these constants and event times below `end`.

        constants: what the extent fixes, by column: its group. end: where it ends, exclusive, microseconds.
        """
        for column, pattern in self.patterns.items():
            if isinstance(pattern, Below):
                if column != time or pattern.bound < end:
                    return False
            elif column not in constants or not pattern.matches(constants[column]):
                return False
        return True

    def bound(self, time: str = TIME) -> int | None:
        """The bound on the event time; None: there is none, the mark holds for all time."""
        pattern = self.patterns.get(time)
        return pattern.bound if isinstance(pattern, Below) else None

    def group(self, time: str = TIME) -> tuple[tuple[str, Value], ...]:
        """The constants on other columns, by name; empty for a linear mark."""
        return tuple(sorted((c, p.value) for c, p in self.patterns.items() if isinstance(p, Constant) and c != time))


Group = tuple[tuple[str, Value], ...]


def linear(bound: int, time: str = TIME) -> Mark:
    """The mark that says: no row with an event time below `bound` follows."""
    return Mark({time: Below(bound)})


def group_wise(constants: Mapping[str, Value], bound: int, time: str = TIME) -> Mark:
    """The mark that says: no row with these constants and an event time below `bound` follows."""
    return Mark({**{c: Constant(v) for c, v in constants.items()}, time: Below(bound)})


def of_group(group: Group, bound: int, time: str = TIME) -> Mark:
    """As `linear` and `group_wise`, from what `Mark.group` gave."""
    return group_wise(dict(group), bound, time)


def project(mark: Mark, columns: Mapping[str, str]) -> Mark | None:
    """The mark in the output of a projection; None when it says nothing there.

    Arguments:
        columns: columns that the projection keeps as they are: input name to output name.

    A pattern on a column that is not kept cannot be dropped: the mark would promise more than is known.

    >>> project(group_wise({"a": 1}, 5), {"ts": "t", "a": "b"}) == group_wise({"b": 1}, 5, "t")
    True
    >>> project(group_wise({"a": 1}, 5), {"ts": "t"}) is None
    True
    """
    if any(c not in columns for c in mark.patterns):
        return None
    return Mark({columns[c]: p for c, p in mark.patterns.items()})


@dataclass(frozen=True)
class Bounds:
    """What marks have said so far: the linear bound, and those of groups that are further on. Never goes back.

    limit: groups that are kept beside the linear bound; further ones are not taken, which loses earliness only.
    """

    linear: int
    groups: Mapping[Group, int] = field(default_factory=dict)
    limit: int | None = None

    def of(self, group: Group) -> int:
        """The bound of a group: its own, or the linear one if that is further."""
        return max(self.linear, self.groups.get(group, self.linear))

    def take(self, mark: Mark, time: str = TIME) -> Bounds:
        """The bounds after a mark; groups that the linear bound has passed are folded into it.

        >>> Bounds(0).take(group_wise({"k": "a"}, 9)).take(linear(5)).take(linear(10))
        Bounds(linear=10, groups={}, limit=None)
        """
        bound, group = mark.bound(time), mark.group(time)
        if bound is None:
            return self
        if not group:
            now = max(self.linear, bound)
            return replace(self, linear=now, groups={g: b for g, b in self.groups.items() if b > now})
        full = self.limit is not None and len(self.groups) >= self.limit and group not in self.groups
        if bound <= self.of(group) or full:
            return self
        return replace(self, groups={**self.groups, group: bound})


@dataclass(frozen=True)
class Meld:
    """The union of marks of several inputs (Li 2008, Fig 8-2): an output is bounded where every input is.

    Inputs that are idle do not count; when all are, nothing moves. State is kept per group for group-wise marks.

    >>> meld = Meld.of(2, nothing=-1)
    >>> meld, out = meld.take(0, linear(20))
    >>> out
    ()
    >>> for bound in (20, 21, 22):  # T16: one output, not three
    ...     meld, out = meld.take(1, linear(bound))
    ...     print([m.bound() for m in out])
    [20]
    []
    []
    """

    inputs: tuple[Bounds, ...]
    idle: frozenset[int] = frozenset()
    announced: Bounds = field(default_factory=lambda: Bounds(0))

    @staticmethod
    def of(count: int, nothing: int) -> Meld:
        """A meld of `count` inputs of which nothing is known; `nothing` lies before all event times."""
        return Meld((Bounds(nothing),) * count, announced=Bounds(nothing))

    def take(self, source: int, mark: Mark, time: str = TIME) -> tuple[Meld, tuple[Mark, ...]]:
        """A mark of an input; returns the meld after it and the marks to hand on."""
        inputs = tuple(b.take(mark, time) if i == source else b for i, b in enumerate(self.inputs))
        return replace(self, inputs=inputs, idle=self.idle - {source})._announce(time)

    def sleep(self, source: int, time: str = TIME) -> tuple[Meld, tuple[Mark, ...]]:
        """An input has fallen silent: the others go on without it until it speaks again."""
        return replace(self, idle=self.idle | {source})._announce(time)

    def _announce(self, time: str) -> tuple[Meld, tuple[Mark, ...]]:
        awake = [b for i, b in enumerate(self.inputs) if i not in self.idle]
        if not awake:
            return self, ()
        marks: list[Mark] = []
        announced = self.announced
        bound = min(b.linear for b in awake)
        if bound > announced.linear:
            marks.append(linear(bound, time))
            announced = announced.take(marks[-1], time)
        for group in sorted({g for b in awake for g in b.groups}, key=repr):
            own = min(b.of(group) for b in awake)
            if own > announced.of(group):
                marks.append(of_group(group, own, time))
                announced = announced.take(marks[-1], time)
        return replace(self, announced=announced), tuple(marks)


@dataclass(frozen=True)
class Describe:
    """Rolls marks up to what the consumer needs (Tucker's Describe; Li 2008, 1.2 granularity): no more, never twice.

    step, origin: the consumer's windows end at origin + k·step; a bound between two ends is of no use to it.
    columns: columns that the consumer groups by; a group-wise mark on any other says nothing to it.

    >>> describe = Describe(step=60, columns=frozenset(), announced=Bounds(0))
    >>> [len(describe.take(m)[1]) for m in (linear(59), linear(60), group_wise({"k": 1}, 600))]
    [0, 1, 0]
    """

    step: int
    origin: int = 0
    columns: Collection[str] = frozenset()
    announced: Bounds = field(default_factory=lambda: Bounds(-(2**62)))

    def take(self, mark: Mark, time: str = TIME) -> tuple[Describe, tuple[Mark, ...]]:
        """A mark; returns the operator after it and what to hand on: nothing, or one coarser mark."""
        bound, group = mark.bound(time), mark.group(time)
        if bound is None or any(c not in self.columns for c, _ in group):
            return self, ()
        coarse = roll_up(bound, self.step, self.origin)
        if coarse <= self.announced.of(group):
            return self, ()
        out = of_group(group, coarse, time)
        return replace(self, announced=self.announced.take(out, time)), (out,)


def roll_up(bound: int, step: int, origin: int = 0) -> int:
    """The last instant origin + k·step that is not behind `bound`.

    >>> roll_up(59, 60), roll_up(-1, 60), roll_up(125, 60, origin=5)
    (0, -60, 125)
    """
    return origin + (bound - origin) // step * step
