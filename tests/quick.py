"""Where small ponds are put: in memory where the system has such a folder, since fsync is most of what they cost."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = "/dev/shm"


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A temporary folder, removed afterwards."""
    there = os.access(_MEMORY, os.W_OK)
    with tempfile.TemporaryDirectory(
        prefix="millpond-test-", dir=_MEMORY if there else None, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)
