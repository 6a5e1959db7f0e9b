"""SHOW SETTINGS: what a pond goes by, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from millpond.catalog import Catalog
from millpond.types.options import Settings, options_of


def show_settings(settings: Settings, opened_with: Mapping[str, Any], catalog: Catalog) -> pa.Table:
    """Every setting with its value, its default, and where the value comes from.

    Args:
        settings: as they are now. opened_with: those that this opening gave. catalog: remembers what was altered.
    """
    kept = catalog.settings
    rows = []
    for name, setting in options_of(Settings).items():
        given = name in opened_with and kept.get(name) != getattr(settings, name)
        rows.append(
            {
                "setting": name,
                "value": shown(getattr(settings, name)),
                "default": shown(setting.default),
                "from": "opening" if given else "ALTER SYSTEM" if name in kept else "default",
                "live": setting.live,
                "about": setting.about,
            }
        )
    schema = [("live", pa.bool_()) if n == "live" else (n, pa.string()) for n in rows[0]]
    return pa.Table.from_pylist(rows, schema=pa.schema(schema))


def shown(value: Any) -> str:
    """A value as it is written."""
    return str(value).lower() if isinstance(value, bool) else str(value)
