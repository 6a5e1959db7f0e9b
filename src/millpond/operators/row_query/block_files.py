"""Upkeep of the files of matched blocks: what nobody will load is removed."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from typing import TYPE_CHECKING

from millpond.operators.row_query.matching import epoch_of, hot_folder
from millpond.tables import remove_file

if TYPE_CHECKING:
    from millpond.engine.core import Core


def sweep_hot(core: Core) -> None:
    """Remove files of matched blocks that nobody will load: of dropped streams, and beyond what memory may hold.

    Files that are mapped stay readable until they are let go.
    """
    folder = os.path.join(core.path, "hot")
    with core.lock:
        live = {os.path.basename(hot_folder(core.path, s)) for s in core.catalog.streams.values()}
        idle = core.last_manifest <= core.published.epoch
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
            if held > core.settings.hot_bytes and epoch <= core.published.epoch:
                remove_file(os.path.join(path, file))


def sweep_hot_orphans(core: Core) -> None:
    """At opening: remove half-written files, and those of tasks that a manifest does not have any more."""
    folder = os.path.join(core.path, "hot")
    for name in _names(folder):
        path = os.path.join(folder, name)
        for file in _names(path):
            epoch = epoch_of(file)
            if epoch is None or epoch > core.published.epoch:
                remove_file(os.path.join(path, file))


def _names(folder: str) -> Iterable[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
