"""Files of tables that are written now and become durable in the background."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

import pyarrow as pa

from millpond.tables.durable_files import Writer, sync_folder, temporary_name
from millpond.tables.locations import is_remote, open_output


class DurableWrites:
    """Files that are written now, become durable in the background, and are in place once `finish` returns.

    Waiting for the disk is most of what a small file costs, and much of what a large one does: several files, and the
    work that follows them, wait for it at the same time. Without `finish` nothing but temporary files is left; in an
    object store (`tables.stores`), where nothing can be renamed, files that no commit names.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "x")
    >>> writes = DurableWrites()
    >>> writes.write(path, lambda file: file.write(b"abc")), os.path.exists(path)
    (3, False)
    >>> writes.finish(); os.path.exists(path)
    True
    """

    def __init__(self) -> None:
        self._begun: list[tuple[str, str, Future[None]]] = []

    def write(self, path: str, write: Writer) -> int:
        """Begin to create or replace `path` by what `write` puts into the file handed to it. Returns its size."""
        file = self.open(path)
        try:
            write(file)
        except BaseException:
            file.close()
            raise
        return self.close(path, file)

    def open(self, path: str) -> pa.NativeFile:
        """The file to be filled with what will be at `path`; `close` must follow."""
        if is_remote(path):
            return open_output(path)
        # Arrow's own file: written through a Python file object, every byte would be copied once more.
        return pa.OSFile(temporary_name(path), "wb")

    def close(self, path: str, file: pa.NativeFile) -> int:
        """All bytes are written to the file that `open` gave. Returns its size."""
        size = int(file.tell())
        if is_remote(path):
            self._begun.append(("", path, _disk().submit(file.close)))
        else:
            self._begun.append((temporary_name(path), path, _disk().submit(_synced, file)))
        return size

    def finish(self) -> None:
        """Wait until everything is on disk, and put the files in place, in the order in which they were begun.

        Raises: OSError.
        """
        begun, self._begun = self._begun, []
        for _, _, written in begun:
            written.result()
        renamed = [(temporary, path) for temporary, path, _ in begun if temporary]
        for temporary, path in renamed:
            os.replace(temporary, path)
        for folder in dict.fromkeys(os.path.dirname(path) for _, path in renamed):
            sync_folder(folder)


@cache
def _disk() -> ThreadPoolExecutor:
    """Threads that wait for the disk."""
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="millpond-disk")


def _synced(file: pa.OSFile) -> None:
    with file:
        file.flush()
        os.fsync(file.fileno())
