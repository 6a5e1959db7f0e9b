"""What EXPLAIN says of windows: which they are, and what they are made of. Instants and durations as text."""

from __future__ import annotations

from millpond.progress import FOREVER, NEVER
from millpond.synopses import PanesSpec
from millpond.synopses.pane_partials import windows_of
from millpond.types import KindWindow, Landmark, LandmarkWindow, Window, WindowQuery, moment_of
from millpond.types.durations import duration as duration
from millpond.windows.costs import Decision
from millpond.windows.landmark_windows import is_dated


def moment(bound: int) -> str:
    """A bound as text.

    >>> moment(FOREVER), moment(NEVER), moment(0)
    ('end', 'none', '1970-01-01 00:00:00')
    """
    if bound >= FOREVER:
        return "end"
    if bound <= NEVER:
        return "none"
    try:
        return str(moment_of(bound))
    except OverflowError:
        return f"{bound} us"


def open_text(range_: int) -> str:
    """How long a range that leaves its end out is, in words; '' for one that does not.

    `[RANGE 1 HOUR OPEN]` is kept as an hour less one microsecond, and times that are written end with no such rest.

    >>> open_text(3_599_999_999)
    '1h'
    """
    return duration(range_ + 1) if range_ % 1_000_000 == 999_999 else ""


def window_line(window: Window) -> str:
    """The window of a query in words."""
    if isinstance(window, KindWindow):
        return f"window: of the registered kind '{window.name}'"
    if isinstance(window, LandmarkWindow):
        since = " or, where that is earlier, ".join(landmark_text(mark) for mark in window.landmarks)
        least = f", and at least the last {duration(window.range)}" if window.range else ""
        return f"window: since {since}{least}, slide {duration(window.slide)}"
    return f"window: range {duration(window.range)}, slide {duration(window.slide)}, origin {moment(window.origin)}"


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
    return f"{first}{zone}, every {duration(landmark.every)}"


def pane_lines(query: WindowQuery, spec: PanesSpec) -> list[str]:
    """What the windows of a query are made of, a line a fact."""
    windows = windows_of(query)
    window = windows[0]
    width, step, _ = spec.panes.shape(window)
    if isinstance(window, KindWindow):
        return ["panes: none; each row updates the windows that hold it, a partial for each group and window"]
    extents = [
        f"since {landmark_text(w.landmark)}" if isinstance(w, LandmarkWindow) else f"range {duration(w.range)}"
        for w in windows[1:]
    ]
    behind = [f"behind aggregates: {extent}" for extent in extents]
    if isinstance(window, LandmarkWindow):
        return [
            *behind,
            f"panes: {duration(spec.panes.width)} wide, {step} per slide; a window has all since its landmark",
            "each row updates 1 pane; panes that no revision can reach any more are kept as one row per group",
        ]
    lines = [*behind]
    lines.append(f"panes: {duration(spec.panes.width)} wide, {width} per window, {step} per slide")
    held = max(1, -(-window.range // window.slide))
    lines.append("each row updates 1 pane" + (f" instead of {held} windows" if held > 1 else ""))
    return lines


def decision_lines(decision: Decision, standing: bool) -> list[str]:
    """What the cost rule says of a query, and what is done where a standing query's state asks for something else."""
    lines = [decision.text]
    if decision.plan == "direct" and standing:
        lines.append(
            "the state of a standing query is kept by panes all the same: others can share it, late rows revise it"
        )
    return lines
