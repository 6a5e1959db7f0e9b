"""Where small ponds are put: in memory where the system has such a folder, since fsync is most of what they cost."""

from __future__ import annotations

import functools
import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import duckdb
from hypothesis import settings

_MEMORY = "/dev/shm"

T = TypeVar("T")


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


def some(cases: Sequence[T], count: int, of: str = "") -> list[T]:
    """So many of the cases, in their order: other ones in each run, by its seed; all in deep mode.

    Arguments:
        of: what they are drawn for, where the same cases are drawn for several things.
    """
    if is_deep() or len(cases) <= count:
        return list(cases)
    chosen = set(random.Random(f"{os.environ['MILLPOND_SEED']} {of}").sample(range(len(cases)), count))
    return [case for number, case in enumerate(cases) if number in chosen]


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
