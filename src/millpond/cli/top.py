"""`millpond top`: a live view of a pond: streams, operators, queries, state; what takes time, and what waits."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from millpond.api.pond import Pond
from millpond.cli.session import reached, reporting
from millpond.cli.status import moment, text
from millpond.client.remote_pond import RemotePond
from millpond.support.errors import PondError
from millpond.support.texts.json_texts import plain

#: Rows of a table that are shown; the busiest come first.
SHOWN = 20


def top(
    pond: Annotated[
        Path | None, typer.Option("--pond", help="The folder of a pond that is not open elsewhere.", file_okay=False)
    ] = None,
    url: Annotated[str | None, typer.Option("--url", envvar="MILLPOND_URL", help="A server's address.")] = None,
    token: Annotated[str | None, typer.Option("--token", envvar="MILLPOND_TOKEN", help="The server's token.")] = None,
    interval: Annotated[float, typer.Option("--interval", help="Seconds between looks.", min=0.1)] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object for each look instead of tables.")] = False,
) -> None:
    """What a pond is doing, again and again until Ctrl-C: streams, operators, queries, state."""
    if pond is None and url is None:
        raise typer.BadParameter("name a server with --url, or a folder with --pond")
    with reporting():
        if pond is not None and not (pond / "pond.json").is_file():
            raise PondError(f"there is no pond in {pond}")
        # A folder is opened inline: looking runs no epoch and needs no Spark.
        with reached(pond, None if pond is not None else url, token, "inline", {}) as handle:
            if once or as_json or not Console().is_terminal:  # a file cannot be drawn over
                _print(handle, interval, once, as_json)
                return
            with Live(draw(look(handle)), screen=True, auto_refresh=False) as live:
                while True:
                    time.sleep(interval)
                    live.update(draw(look(handle)), refresh=True)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(top)


def _print(handle: Pond | RemotePond, interval: float, once: bool, as_json: bool) -> None:
    console = Console()
    while True:
        seen = look(handle)
        if as_json:
            typer.echo(json.dumps(plain(seen)))
        else:
            console.print(draw(seen))
        sys.stdout.flush()
        if once:
            return
        time.sleep(interval)


def look(handle: Pond | RemotePond) -> dict[str, Any]:
    """What there is to see now, JSON-ready: the pond, its streams, operators, queries and state."""
    state = handle.status()
    work = state["work"]
    span = work["span"] or work["seconds"]
    streams = _streams(state, span)
    synopses = handle.sql("SHOW SYNOPSES").to_arrow().to_pylist()
    kept = ("synopsis", "kind", "stream", "rows", "bytes", "users", "shared", "views")
    same = ("path", "epochs", "memory_bytes", "state_bytes", "scheduling", "statistics")
    return {
        "pond": {name: state[name] for name in same}
        | {
            "looked_at": work["epochs"],
            "seconds": work["seconds"],
            "rows": work["rows"],
            "rate": _per(work["rows"], span),
            "waiting_rows": sum(s["waiting_rows"] for s in streams),
            "row_queries": state["row_queries"].get("live", 0),
        },
        "streams": streams,
        "operators": sorted(_operators(work), key=lambda o: -o["seconds"]),
        "queries": sorted(_queries(state), key=lambda q: -q["seconds"]),
        "synopses": sorted(({k: s[k] for k in kept} for s in synopses), key=lambda s: -s["bytes"]),
        "filters": [_order(f) for f in state["filters"]],
    }


def _done(state: Mapping[str, Any], kind: str) -> dict[str, Mapping[str, Any]]:
    """What entities of a kind did in the last epochs, by name."""
    return {e["entity"]: e for e in state["work"]["entities"] if e["kind"] == kind}


def _streams(state: Mapping[str, Any], span: float) -> list[dict[str, Any]]:
    done = _done(state, "stream")
    return [
        {
            "stream": name,
            "rows": s["rows"],
            "rate": _per(done.get(name, {}).get("rows_in", 0), span),
            "late": s["late"],
            "dead": s["dead"],
            "waiting_rows": s["pending_rows"],
            "watermark": s["watermark"],
            "newest": s["high_watermark"],
            "archive_bytes": s["bytes"],
        }
        for name, s in state["streams"].items()
    ]


def _operators(work: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "operator": e["entity"],
            "kind": e["kind"],
            "rows_in": int(e.get("rows_in", 0)),
            "rows_out": int(e.get("rows_out", 0)),
            "selectivity": e.get("selectivity"),
            "seconds": e.get("seconds", 0.0),
            "share": _per(e.get("seconds", 0.0), work["seconds"]),
        }
        for e in work["entities"]
        if e["kind"] not in ("query", "stream")
    ]


def _queries(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    done = _done(state, "query")
    return [
        {
            "query": name,
            "status": q["status"],
            "rows_out": int(done.get(name, {}).get("rows_out", 0)),
            "seconds": done.get(name, {}).get("seconds", 0.0),
            "rows": q["rows"],
            "revisions": q["revisions"],
            "too_late": q["too_late"],
            "closed": q["closed"],
        }
        for name, q in state["queries"].items()
    ]


def _order(found: Mapping[str, Any]) -> dict[str, Any]:
    """The order of some filters with those that it had before, the newest first."""
    before = [f"epoch {h['epoch']}: {' > '.join(h['order'])}" for h in reversed(found["history"])]
    return {**found, "history": "\n".join(before)}


def _per(amount: float, of: float) -> float:
    return round(amount / of, 4) if of else 0.0


def draw(seen: Mapping[str, Any]) -> Group:
    """What was seen, as it is drawn on a terminal."""
    pond = seen["pond"]
    head = Text(f"millpond top  {pond['path']}  epoch {pond['epochs']:,}", style="bold")
    line = (
        f"last {pond['looked_at']} epochs: {text(pond['rows'])} rows in {pond['seconds']:.2f} s, {text(pond['rate'])}"
        f" rows/s; waiting {text(pond['waiting_rows'])} rows ({pond['scheduling']});"
        f" memory {size(pond['memory_bytes'])}, state {size(pond['state_bytes'])};"
        f" {text(pond['row_queries'])} row queries"
    )
    parts: list[Any] = [head, Text(line)]
    for title, name in (
        ("streams", "streams"), ("operators", "operators"), ("queries", "queries"), ("state", "synopses"),
        ("filter orders", "filters"),
    ):  # fmt: skip
        if seen[name]:
            parts += [Text(), _table(title, seen[name])]
    return Group(*parts)


def _table(title: str, rows: list[Mapping[str, Any]]) -> Table:
    """The first rows, a column for each field that any has something in."""
    names = [n for n in rows[0] if any(r.get(n) not in (None, "", 0, 0.0, False) for r in rows)]
    left = f" ({len(rows) - SHOWN:,} more)" if len(rows) > SHOWN else ""
    drawn = Table(title=title + left, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in names:
        number = all(isinstance(r.get(name), (int, float, type(None))) for r in rows)
        drawn.add_column(name.replace("_", " "), justify="right" if number else "left", overflow="fold")
    for row in rows[:SHOWN]:
        drawn.add_row(*(Text(_cell(name, row.get(name))) for name in names))
    return drawn


def _cell(name: str, value: Any) -> str:
    if name.endswith("bytes") and isinstance(value, int):
        return size(value)
    if name in ("watermark", "newest", "closed"):
        return moment(value)
    if name == "seconds" and value is not None:
        return f"{value:.3f}"
    if name in ("share", "selectivity") and value is not None:
        return f"{100 * value:.1f} %"
    return text(value)


def size(value: float) -> str:
    """Bytes in few characters.

    >>> size(900), size(2_000_000)
    ('900 B', '1.9 MiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError
