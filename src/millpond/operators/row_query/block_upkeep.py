"""Upkeep of the files of matched blocks: what nobody will load is removed."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable

from millpond.catalog import Catalog
from millpond.manifests.epochs import Epochs
from millpond.operators.row_query.matching import epoch_of, hot_folder
from millpond.tables import remove_file


def sweep_hot(epochs: Epochs, catalog: Catalog, hot_bytes: int) -> None:
    """Remove files of matched blocks that nobody will load: of dropped streams, and beyond what memory may hold.

    Files that are mapped stay readable until they are let go.

    Args:
        catalog: as it is. hot_bytes: that memory may hold.
    """
    folder = os.path.join(epochs.path, "hot")
    live = {os.path.basename(hot_folder(epochs.path, s)) for s in catalog.streams.values()}
    with epochs.lock:
        idle = epochs.in_flight is None
    for name in _names(folder):
        path = os.path.join(folder, name)
        if name not in live:
            if idle:
                shutil.rmtree(path, ignore_errors=True)
            continue
        files = sorted(((e, n) for n in _names(path) if (e := epoch_of(n)) is not None), reverse=True)
        held = 0
        for epoch, file in files:
            with contextlib.suppress(FileNotFoundError):
                held += os.path.getsize(os.path.join(path, file))
            if held > hot_bytes and epoch <= epochs.published.epoch:
                remove_file(os.path.join(path, file))


def sweep_hot_orphans(epochs: Epochs) -> None:
    """At opening: remove half-written files, and those of tasks that a manifest does not have any more."""
    folder = os.path.join(epochs.path, "hot")
    for name in _names(folder):
        path = os.path.join(folder, name)
        for file in _names(path):
            epoch = epoch_of(file)
            if epoch is None or epoch > epochs.published.epoch:
                remove_file(os.path.join(path, file))


def _names(folder: str) -> Iterable[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
