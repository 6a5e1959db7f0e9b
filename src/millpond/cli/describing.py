"""What `\\d` shows: all names of a pond, or one of them with its columns."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from millpond.cli.names import find
from millpond.support.errors import QueryError
from millpond.support.sql import quote


def list_names(pond: Any, console: Console) -> None:
    """Print every stream, table and query. Raises: what the pond raises."""
    kinds = find(pond)
    if not kinds:
        console.print("there is nothing yet; CREATE STREAM … declares a stream")
        return
    drawn = Table("name", "kind", box=None, pad_edge=False, header_style="bold")
    for name, kind in sorted(kinds.items(), key=lambda item: (("stream", "table", "query").index(item[1]), item[0])):
        drawn.add_row(Text(name), kind)
    console.print(drawn)
    rows = pond.status().get("row_queries") or {}
    hidden = rows.get("live", 0) + rows.get("paused", 0) - sum(k == "query" for k in kinds.values())
    if hidden > 0:
        console.print("queries without a name, or too many of them: SHOW QUERIES lists all", style="dim")


def describe_name(pond: Any, name: str, console: Console) -> None:
    """Print what is known of a stream, table or query.

    Raises: QueryError when there is none of that name, and what the pond raises.
    """
    kind, found = _look_up(pond, name)
    console.print(Text.assemble((f"{kind} ", "dim"), (str(found["name"]), "bold")))
    drawn = Table("column", "type", box=None, pad_edge=False, header_style="bold")
    for column in found.get("columns", ()):
        drawn.add_row(Text(column["name"]), Text(column["type"]))
    console.print(drawn)
    for label, value in _facts(pond, kind, found):
        console.print(Text.assemble((f"{label}: ", "dim"), str(value)), soft_wrap=True)


def _look_up(pond: Any, name: str) -> tuple[str, dict[str, Any]]:
    try:
        handle = pond.query(name)
    except QueryError:
        found = pond.describe(name)
        return ("stream" if "time" in (found.get("options") or {}) else "table"), found
    return "query", handle.info()


def _facts(pond: Any, kind: str, found: dict[str, Any]) -> list[tuple[str, Any]]:
    facts: list[tuple[str, Any]] = []
    if kind == "query":
        facts = [("id", found.get("id")), ("kind", found.get("kind")), ("status", found.get("status"))]
        facts += [("owner", found.get("owner")), ("over", ", ".join(found.get("streams", ())))]
        facts.append(("text", found.get("text")))
        return [(label, value) for label, value in facts if value not in (None, "")]
    try:
        [(declared,)] = pond.sql(f"SHOW CREATE {kind.upper()} {quote(found['name'])}").rows()
        facts.append(("declared as", declared))
    except QueryError:  # the system's
        facts.append(("source", (found.get("options") or {}).get("source")))
    if kind == "stream":
        state = pond.status()["streams"].get(found["name"], {})
        facts += [(n.replace("_", " "), state[n]) for n in ("rows", "watermark", "high_watermark") if n in state]
    return [(label, value) for label, value in facts if value not in (None, "")]
