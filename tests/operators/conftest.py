"""Limits that are meant for many rows, so small that few rows meet them."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest

from millpond.engine.intake import split_reader
from millpond.operators.panes import state as panes
from millpond.operators.relational import relation_backfill
from millpond.operators.rows import state as rows
from millpond.operators.stores import state as stores


@pytest.fixture(autouse=True, scope="module")
def small_limits() -> Iterator[None]:
    """Every item is a piece; rows that nobody needs are left out of memory, and long state is read from files."""
    with (
        mock.patch.object(split_reader, "PIECE", 1),
        mock.patch.object(stores, "PRUNED", 2),
        mock.patch.object(panes, "KEPT_ROWS", 10),
        mock.patch.object(rows, "KEPT_ROWS", 5),
        mock.patch.object(relation_backfill, "PIECE", 4),
    ):
        yield
