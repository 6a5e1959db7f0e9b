"""Threads for what one task does while no other task could have its cores.

A task is one thread, and a shard one task: what is in one shard leaves all other cores idle. Where that is so the task
says how many threads it may use (`at_most`), and parts of its work that know nothing of each other are done side by
side (`side_by_side`). What comes out is the same for any number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import duckdb

from millpond.synopses import connection

T = TypeVar("T")

#: Something to do with the DuckDB connection of the thread that does it.
Job = Callable[[duckdb.DuckDBPyConnection], T]

_local = threading.local()
_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Let what this thread does in the block use so many threads, and not more than there are cores."""
    before = allowed()
    _local.threads = max(1, min(threads, cores()))
    try:
        yield
    finally:
        _local.threads = before


def allowed() -> int:
    """How many threads this thread may use; one, unless it was said otherwise."""
    return int(getattr(_local, "threads", 1))


def side_by_side(db: duckdb.DuckDBPyConnection, jobs: Sequence[Job[T]]) -> list[T]:
    """Do some jobs, in as many threads as are allowed. Returns what each gave, in their order.

    A job that fails lets no further one begin; what it raised is raised when the others have ended.

    Arguments:
        db: the connection of this thread, which does jobs as well.

    >>> import duckdb
    >>> with at_most(2):
    ...     side_by_side(duckdb.connect(), [lambda db: 1, lambda db: 2, lambda db: 3])
    [1, 2, 3]
    """
    count = min(allowed(), len(jobs))
    if count < 2:
        return [job(db) for job in jobs]
    found: dict[int, T] = {}
    waiting, failed = iter(range(len(jobs))), threading.Event()

    def work(own: duckdb.DuckDBPyConnection) -> None:
        while not failed.is_set():
            with _lock:
                number = next(waiting, None)
            if number is None:
                return
            try:
                found[number] = jobs[number](own)
            except BaseException:
                failed.set()
                raise

    helpers = [_pool().submit(lambda: work(connection())) for _ in range(count - 1)]
    try:
        work(db)
    finally:
        errors = [helper.exception() for helper in helpers]
    for error in errors:
        if error is not None:
            raise error
    return [found[number] for number in range(len(jobs))]


def _pool() -> ThreadPoolExecutor:
    """The helpers of this process: not those of one that it was forked from."""
    with _lock:
        if os.getpid() not in _pools:
            _pools.clear()
            _pools[os.getpid()] = ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix="millpond-helper")
        return _pools[os.getpid()]
