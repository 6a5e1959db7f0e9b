"""SHOW SYNOPSES: the state of queries, how much of it there is, who uses it and what each user sees of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, assert_never

import pyarrow as pa

from millpond.catalog import Catalog, Standing, Store, Synopsis
from millpond.engine.control.sizes import Size
from millpond.engine.core import Core
from millpond.functions import display
from millpond.manifests.quarantine import Failures
from millpond.synopses import PanesSpec, SessionsSpec
from millpond.synopses.pane_partials import window_behind
from millpond.synopses.partials.dispatch import Spec
from millpond.synopses.row_partials import RowsSpec
from millpond.types import (
    DAY,
    HOUR,
    CalendarSpan,
    CalendarWindow,
    CountWindow,
    KindWindow,
    Landmark,
    LandmarkWindow,
    LatestRowsWindow,
    PairsQuery,
    RangeWindow,
    RelationInput,
    RelationQuery,
    RowWindowQuery,
    SessionQuery,
    SessionWindow,
    TimeWindow,
    TumblingWindow,
    UnboundedWindow,
    Window,
    WindowQuery,
)
from millpond.types.durations import duration, open_text
from millpond.types.instants import moment
from millpond.types.relation_queries import EVERYWHERE
from millpond.windows import CalendarPanes, KindPanes, Panes
from millpond.windows.landmark_windows import is_dated

#: How the language calls the time from a landmark to the next.
_PERIODS = {HOUR: "HOURLY", DAY: "DAILY", 7 * DAY: "WEEKLY"}

_SCHEMA = pa.schema(
    [
        ("synopsis", pa.string()),
        ("kind", pa.string()),
        ("stream", pa.string()),
        ("pane", pa.string()),
        ("filter", pa.string()),
        ("keys", pa.string()),
        ("components", pa.int64()),
        ("state", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("users", pa.string()),
        ("shared", pa.bool_()),
        ("views", pa.string()),
    ]
)


#: What a synopsis is called, by what it keeps.
_KINDS = {PanesSpec: "panes", RowsSpec: "row window", SessionsSpec: "sessions"}


def show_synopses(core: Core) -> pa.Table:
    """One row for each synopsis and each store of rows.

    rows, bytes: what the committed state files hold of it; a group whose pane several epochs added to counts once for
    each until files are merged. views: what each user sees of it.
    """
    with core.lock:
        catalog, segments = core.catalog, core.state.segments
    with core.pinned():
        sizes = core.reporter.sizes.of(segments)
    parts: dict[str, Callable[[], dict[str, Any]]] = {}

    def of_panes(s: Synopsis) -> dict[str, Any]:
        summaries = [f"a summary of {catalog.streams[c.stream].name}" for c in catalog.kept_by(s.owner)]
        kind = _KINDS[type(s.spec)]
        about = {
            "stream": ", ".join(catalog.streams[n].label for n in s.spec.streams),
            "pane": _pane(s.spec),
            "filter": display(str(s.spec.where or "")),
            "keys": display(", ".join(map(str, s.spec.keys))),
            "components": len(s.spec.components),
            "state": s.spec.form,
        }
        return _row(catalog, s.owner, kind, about, sizes.get(s.owner, Size()), summaries)

    def of_rows(store: Store) -> dict[str, Any]:
        about = {
            "stream": ", ".join(catalog.streams[n].name for n in store.spec.streams),
            "pane": "rows",
            "filter": display(str(store.spec.where or "")),
            "keys": _placing(store, core.published.hot.get(store.owner, {})),
            "components": len(store.spec.columns),
            "state": "rows",
        }
        return _row(catalog, store.owner, "rows", about, sizes.get(store.owner, Size()), [])

    parts |= {owner: partial(of_panes, synopsis) for owner, synopsis in catalog.synopses.items()}
    parts |= {owner: partial(of_rows, store) for owner, store in catalog.stores.items()}
    failures = Failures(catalog, "SHOW SYNOPSES")
    found = [failures.attempt(owner, part) for owner, part in parts.items()]
    return pa.Table.from_pylist([row for row in found if row is not None], schema=_SCHEMA)


def _row(
    catalog: Catalog, owner: str, kind: str, about: dict[str, Any], size: Size, others: list[str]
) -> dict[str, Any]:
    users = sorted(catalog.users(owner), key=lambda q: q.definition.name)
    return about | {
        "synopsis": owner,
        "kind": kind,
        "rows": size.rows,
        "bytes": size.bytes,
        "users": ", ".join([*dict.fromkeys(n for q in users for n in catalog.known_as(q)), *others]),
        "shared": len(users) + len(others) > 1,
        "views": "; ".join(f"{', '.join(catalog.known_as(q))}: {_view(q, owner)}" for q in users),
    }


def _placing(store: Store, split: Mapping[str, str]) -> str:
    """By what the rows of a store are spread over the shards, and which keys are split."""
    spread = f"spread by {store.spread}" if store.spread else ""
    spread = "in every shard" if store.spread == EVERYWHERE else spread
    return spread + (f", split: {', '.join(sorted(split.values()))}" if split else "")


def _view(standing: Standing, owner: str) -> str:
    """The window through which a query sees state."""
    query = standing.definition.query
    match query:
        case RelationQuery() | PairsQuery():
            mine = [i for o, i in zip(standing.inputs, query.inputs, strict=True) if o == owner]
            return " and ".join(_of_input(i) for i in mine)
        case RowWindowQuery():
            extent = f"ROWS {query.window.rows}" if isinstance(query.window, CountWindow) else "RANGE"
            return f"[{extent} SLIDE {query.window.slide}]"
        case SessionQuery():
            return _of_session(query.window)
        case WindowQuery():
            behind = dict.fromkeys(window_behind(query, a) for a in query.aggregates)
            return " and ".join(_of_window(window) for window in behind or (query.window,))
        case _:
            assert_never(query)


def _of_window(window: Window) -> str:
    """A window with a SLIDE as in SQL."""
    match window:
        case KindWindow():
            return f"[KIND {window.name}]"
        case LandmarkWindow():
            return f"[RANGE ALL {_since(window.landmark)}SLIDE {duration(window.slide)}]"
        case CalendarWindow():
            extent = f"ALL EVERY {window.length}" if window.grows else window.length
            return f"[RANGE {extent} SLIDE {window.step} ZONE '{window.zone}']".upper().replace(
                window.zone.upper(), window.zone
            )
        case TimeWindow():
            return f"[RANGE {duration(window.range)} SLIDE {duration(window.slide)}]"
        case _:
            assert_never(window)


def _of_session(window: SessionWindow) -> str:
    """A window of sessions as in SQL."""
    by = ", ".join(str(k.expression) for k in window.partition)
    gap = f"({window.spans})" if window.spans is not None else duration(window.gap)
    most = "" if window.longest is None else f" MAX {duration(window.longest)}"
    return f"[{f'PARTITION BY {by} ' if by else ''}SESSION {gap}{most}]"


def _since(landmark: Landmark) -> str:
    """The landmark as in SQL, with a space behind it; '' for the start of the stream.

    >>> _since(Landmark(21_600_000_000, 86_400_000_000, "Europe/Berlin"))
    "SINCE '06:00:00' DAILY ZONE 'Europe/Berlin' "
    """
    if landmark.since is None:
        return ""
    at = moment(landmark.since)
    since = f"SINCE TIMESTAMP '{at}' " if is_dated(landmark) else f"SINCE '{at.removeprefix('1970-01-01 ')}' "
    if landmark.always:
        since = f"ORIGIN TIMESTAMP '{at}' "
    if landmark.months:
        since += f"EVERY {CalendarSpan(landmark.months, 'months')} ".upper()
    elif landmark.every is not None:
        since += f"{_PERIODS.get(landmark.every) or f'EVERY {duration(landmark.every)}'} "
    return since + (f"ZONE '{landmark.zone}' " if landmark.zone != "UTC" else "")


def _of_input(item: RelationInput) -> str:
    window = item.window
    match window:
        case LatestRowsWindow():
            by = f"PARTITION BY {', '.join(window.partition)} " if window.partition else ""
            return f"[{by}ROWS {window.rows}]"
        case TumblingWindow():
            return f"[RANGE TUMBLING {duration(window.range)}]"
        case RangeWindow():
            if open_range := open_text(window.range):
                return f"[RANGE {open_range} OPEN]"
            return f"[RANGE {duration(window.range)}]" if window.range else "[NOW]"
        case UnboundedWindow():
            return "[RANGE UNBOUNDED]"
        case _:
            assert_never(window)


def _pane(spec: Spec) -> str:
    """What a synopsis keeps of each group."""
    if not isinstance(spec, PanesSpec):
        return "rows" if isinstance(spec, RowsSpec) else "sessions"
    match spec.panes:
        case Panes():
            return duration(spec.panes.width)
        case CalendarPanes():
            return str(spec.panes.span)
        case KindPanes():
            return spec.panes.kind.split("@")[0]
        case _:
            assert_never(spec.panes)


__all__ = ["show_synopses"]
