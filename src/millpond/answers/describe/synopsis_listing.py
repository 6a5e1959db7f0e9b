"""SHOW SYNOPSES: the state of queries, how much of it there is, who uses it and what each user sees of it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

from millpond.archive.open_archives import Archives
from millpond.catalog import Catalog, Standing
from millpond.engine.control.sizes import Size, StateSizes
from millpond.functions import display
from millpond.manifests.quarantine import Failures
from millpond.operators.contract import Operator
from millpond.operators.registry import answering_kind, state_of

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


def show_synopses(archives: Archives, measured: StateSizes) -> pa.Table:
    """One row for each synopsis and each store of rows.

    rows, bytes: what the committed state files hold of it; a group whose pane several epochs added to counts once for
    each until files are merged. views: what each user sees of it.
    """
    with archives.lock:
        catalog, segments, hot = archives.catalog, archives.storage.state.segments, archives.published.hot
    with archives.pinned():
        sizes = measured.of(segments)

    def row(operator: Operator) -> dict[str, Any] | None:
        owner = operator.owner
        if (kept := operator.kept(hot.get(owner, {}))) is None:
            return None
        size, others = sizes.get(owner, Size()), [
            f"a summary of {catalog.streams[c.stream].name}" for c in catalog.kept_by(owner)
        ]  # fmt: skip
        return {
            "synopsis": owner,
            "kind": kept.kind,
            "stream": ", ".join(kept.streams),
            "pane": kept.pane,
            "filter": display(str(kept.filter or "")),
            "keys": display(kept.keys),
            "components": kept.components,
            "state": kept.form,
            "rows": size.rows,
            "bytes": size.bytes,
            **_used(catalog, owner, others),
        }

    failures = Failures(catalog, "SHOW SYNOPSES")
    found = [failures.attempt(operator.owner, partial(row, operator)) for operator in state_of(catalog)]
    return pa.Table.from_pylist([row for row in found if row is not None], schema=_SCHEMA)


def _used(catalog: Catalog, owner: str, others: list[str]) -> dict[str, Any]:
    """Who uses state, and what each sees of it. others: that use it beside queries."""
    users = sorted(catalog.users(owner), key=lambda q: q.definition.name)
    return {
        "users": ", ".join([*dict.fromkeys(n for q in users for n in catalog.known_as(q)), *others]),
        "shared": len(users) + len(others) > 1,
        "views": "; ".join(f"{', '.join(catalog.known_as(q))}: {_view(q, owner)}" for q in users),
    }


def _view(standing: Standing, owner: str) -> str:
    return answering_kind(standing.definition.query).view(standing, owner)


__all__ = ["show_synopses"]
