"""Spark's daemon for Python workers, but that a worker whose JVM is gone ends without a word.

Spark starts it as `python -m millpond.engine.spark.daemon pyspark.worker` (`spark.python.daemon.module`). When a
session stops, a worker may be in the middle of an answer; PySpark's own daemon then prints a traceback of a broken
pipe on the user's standard error, behind the program's last line. Nothing heavy may be imported here: workers are
forked from it.
"""

from __future__ import annotations

import gc
import os
import socket
import sys

from pyspark import daemon

_worker = daemon.worker
_modules = 0


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Run one worker; one that cannot reach the JVM any more ends, as it would have."""
    try:
        code = int(_worker(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        os._exit(1)
    settle()
    return code


def settle() -> None:
    """Take what modules have made out of what garbage collection walks through, whenever modules were imported.

    PySpark's daemon collects garbage after each task, before the worker is there for the next one. With everything
    imported that a task of the engine needs, that is half a million objects that stay for ever: 50 ms a task.
    """
    global _modules
    if len(sys.modules) != _modules:
        _modules = len(sys.modules)
        gc.collect()
        gc.freeze()


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
