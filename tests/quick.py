"""Where small ponds are put: in memory where the system has such a folder, since fsync is most of what they cost."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
from hypothesis import settings

_MEMORY = "/dev/shm"


def is_deep() -> bool:
    """Whether this run repeats what others prove, with more data."""
    return os.environ.get("HYPOTHESIS_PROFILE") == "deep"


def many(usual: float, deep: float, least: int = 4) -> settings:
    """How many examples a property gets, as multiples of what its profile says.

    Arguments:
        usual: at any time. deep: in deep mode, where some have to come to ten thousand cases of each kind of window
            (see `tests.cases_of_kinds`). least: at any time.
    """
    share = deep if is_deep() else usual
    return settings(max_examples=max(least, int(settings.default.max_examples * share)))


@functools.cache
def _instance() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def plain_duckdb() -> duckdb.DuckDBPyConnection:
    """A session of its own in a DuckDB that is there already: settings and registered tables are the session's alone.

    A new instance costs forty milliseconds, which is most of what a small question does.
    """
    return _instance().cursor()


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A temporary folder, removed afterwards."""
    there = os.access(_MEMORY, os.W_OK)
    with tempfile.TemporaryDirectory(
        prefix="millpond-test-", dir=_MEMORY if there else None, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)
