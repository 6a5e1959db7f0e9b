"""Spark's daemon for Python workers, but that a worker whose JVM is gone ends without a word.

Started by Spark as `python -m millpond.spark_daemon pyspark.worker` (`spark.python.daemon.module`). When a session
stops, a worker may be in the middle of an answer; PySpark's own daemon then prints a traceback of a broken pipe on the
user's standard error, behind the program's last line. Nothing heavy may be imported here: workers are forked from it.
"""

from __future__ import annotations

import os
import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Run one worker; one that cannot reach the JVM any more ends, as it would have."""
    try:
        return int(_worker(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        os._exit(1)


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
