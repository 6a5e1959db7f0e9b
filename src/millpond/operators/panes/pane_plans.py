"""What EXPLAIN says of windows that end at instants: which they are, what they are made of, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator

from millpond.functions.mergeable_states import STATE_LIMIT
from millpond.operators.panes.measuring import decision_for
from millpond.operators.plan_facts import PlanFacts
from millpond.operators.windowed.window_plans import filter_and_keys
from millpond.synopses import PanesSpec, is_holistic
from millpond.synopses.aggregates.splits import SKETCHES
from millpond.synopses.aggregates.statistics import family_of, kept_by
from millpond.types import (
    Aggregate,
    CalendarSpan,
    CalendarWindow,
    KindWindow,
    Landmark,
    LandmarkWindow,
    Window,
    WindowQuery,
)
from millpond.types.durations import duration
from millpond.types.instants import moment
from millpond.types.plan_nodes import Fact, said
from millpond.windows import CalendarPanes, cover_of
from millpond.windows.landmark_windows import is_dated


def pane_facts(facts: PlanFacts, query: WindowQuery, spec: PanesSpec, standing: bool) -> list[Fact]:
    """What there is to say of a query over windows, by the panes that it needs.

    Args:
        standing: it is registered, and not asked once.
    """
    single = "LIMIT or DISTINCT needs all groups of a window at once: one shard keeps them"
    return [
        _window(query.window),
        *filter_and_keys(query),
        *_panes(query, spec),
        *_decision(facts, query, spec, standing),
        # Components of estimates are told by what they estimate.
        *(_kept(a) for a in query.aggregates if a.measure in ("", "estimate")),
        *([said("single", single)] if spec.single else []),
    ]


def _window(window: Window) -> Fact:
    """The window of a query in words."""
    if isinstance(window, KindWindow):
        return Fact("window", f"of the registered kind '{window.name}'")
    if isinstance(window, CalendarWindow):
        since = f"grows, anew every {window.length}" if window.grows else f"range {window.length}"
        clock = f"by the clock of {window.zone}, from {moment(window.anchor)} on"
        return Fact("window", f"{since}, slide {window.step}, {clock}")
    if isinstance(window, LandmarkWindow):
        since = " or, where that is earlier, ".join(landmark_text(mark) for mark in window.landmarks)
        least = f", and at least the last {duration(window.range)}" if window.range else ""
        return Fact("window", f"since {since}{least}, slide {duration(window.slide)}")
    origin = moment(window.origin)
    return Fact("window", f"range {duration(window.range)}, slide {duration(window.slide)}, origin {origin}")


def landmark_text(landmark: Landmark) -> str:
    """Where windows begin, in words.

    >>> landmark_text(Landmark(21_600_000_000, 86_400_000_000, "Europe/Berlin"))
    '06:00:00 in Europe/Berlin, every 1d'
    """
    if landmark.since is None:
        return "the start of the stream"
    if landmark.every is None:
        return moment(landmark.since)
    zone = "" if landmark.zone == "UTC" else f" in {landmark.zone}"
    first = moment(landmark.since) if is_dated(landmark) else moment(landmark.since).removeprefix("1970-01-01 ")
    every = CalendarSpan(landmark.months, "months") if landmark.months else duration(landmark.every)
    return f"{first}{zone}, every {every}"


def _panes(query: WindowQuery, spec: PanesSpec) -> Iterator[Fact]:
    """What the windows of a query are made of."""
    window, *behind = query.windows
    if isinstance(window, KindWindow):
        yield Fact("panes", "none; each row updates the windows that hold it, a partial for each group and window")
        return
    width, step, _ = spec.panes.shape(window)
    for each in behind:
        since = f"since {landmark_text(each.landmark)}" if isinstance(each, LandmarkWindow) else ""
        yield Fact("behind aggregates", since or f"range {duration(each.range)}")
    if isinstance(spec.panes, CalendarPanes):
        most = "at most " if cover_of(spec.panes, window).varies else ""
        yield Fact("panes", f"{spec.panes.span} wide, {most}{width} per window, {step} per slide")
        yield said("updates", "each row updates 1 pane")
        return
    wide = f"{duration(spec.panes.width)} wide"
    if isinstance(window, LandmarkWindow):
        yield Fact("panes", f"{wide}, {step} per slide; a window has all since its landmark")
        gone = "each row updates 1 pane; panes that no revision can reach any more are kept as one row per group"
        yield said("updates", gone)
        return
    yield Fact("panes", f"{wide}, {width} per window, {step} per slide")
    held = max(1, -(-window.range // window.slide))
    yield said("updates", "each row updates 1 pane" + (f" instead of {held} windows" if held > 1 else ""))


def _decision(facts: PlanFacts, query: WindowQuery, spec: PanesSpec, standing: bool) -> Iterator[Fact]:
    """What the cost rule says of a query, and what is done where a standing query's state asks for something else."""
    stream = facts.catalog.stream(query.stream)
    assert stream is not None
    files, _ = facts.archives.get(stream.id, ((), None))
    decision = decision_for(facts.pond, stream, query, spec, files)
    if decision is None:
        return
    yield said("cost", decision.text)
    if decision.plan == "direct" and standing:
        kept = "the state of a standing query is kept by panes all the same: others can share it, late rows revise it"
        yield said("cost", kept)


def _kept(aggregate: Aggregate) -> Fact:
    """What is kept for an aggregate."""
    function = aggregate.function
    if (statistic := kept_by(aggregate)) is not None:
        return Fact("approximate" if family_of(function) in SKETCHES else "holistic", f"{function} {statistic}")
    if aggregate.states_of:
        name = aggregate.states_of.split("__")[1]
        return Fact("bounded", f"{name} keeps a state of its own of each pane and group, at most {STATE_LIMIT} bytes")
    if is_holistic(aggregate):
        kept = "distinct values" if aggregate.distinct else "values"
        return Fact("holistic", f"{function} keeps all {kept} of each pane and group; state grows with the rows")
    return Fact("bounded", f"{function} keeps a fixed number of accumulators per pane and group")
