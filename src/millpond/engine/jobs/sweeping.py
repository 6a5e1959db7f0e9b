"""Sweeping: files that nobody names any more are deleted, once no epoch and no reader can hold them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from millpond.archive.remote import remote_place_of, remove_remote
from millpond.archive.storage import Storage
from millpond.catalog.catalogs import Catalogs
from millpond.engine.intake.live_storage import LiveStorage
from millpond.manifests.adoptions import Adoption
from millpond.manifests.epochs import Epochs
from millpond.manifests.records import Manifest, read_manifest
from millpond.operators.row_query.block_upkeep import sweep_hot_orphans
from millpond.tables.locations import remove


def sweep(storage: Storage, epochs: Epochs) -> None:
    """Delete files that commits have replaced, when no reader can still hold them; the running epoch keeps its own."""
    with storage.lock:
        if storage.pins:
            return
        epoch = epochs.in_flight
        needed = set() if epoch is None else _files_of(read_manifest(storage.path, epoch))
        names = [(t, name) for t in storage.tables() for name in t.garbage(needed)]
    for table, name in names:
        remove(os.path.join(table.folder, name))


def _files_of(manifest: Manifest) -> set[str]:
    """Names of the files that an epoch reads: of state, and of archives that its queries look up."""
    return {s.path for s in manifest.state} | {s.path for files in manifest.archive.values() for s in files}


def sweep_dropped(storage: LiveStorage, catalogs: Catalogs, epochs: Epochs) -> None:
    """Delete what dropped streams left, once no epoch and no reader can still touch it."""
    path = storage.path
    with storage.lock:
        if epochs.in_flight is not None or storage.pins:
            return
        live = catalogs.catalog.streams
        for stream in [s for s in storage.streams if s not in live]:
            storage.streams.pop(stream).log.close()
        homes: dict[str, str] = {}
        for kind in ("streams", "copies", "dead", "intake"):
            for name in os.listdir(os.path.join(path, kind)):
                if int(name.rsplit("-", 1)[1]) not in live:
                    folder = os.path.join(path, kind, name)
                    if kind == "streams" and (home := remote_place_of(folder)) is not None:
                        homes[folder] = home
                    else:
                        shutil.rmtree(folder, ignore_errors=True)
    # An object store may be slow, or not answer at all, and nobody else writes to the place: epochs go on meanwhile.
    gone = [folder for folder, home in homes.items() if remove_remote(path, home)]
    with storage.lock:
        for folder in gone:
            if remote_place_of(folder) == homes[folder]:  # else it is another stream's by now
                shutil.rmtree(folder, ignore_errors=True)


def sweep_orphans(storage: Storage, epochs: Epochs, finished: Sequence[Adoption]) -> None:
    """At opening: delete files that killed epochs and jobs left, except what a repeated epoch will need.

    Args:
        finished: back-fills whose files no commit names yet.
    """
    sweep_hot_orphans(epochs)
    needed = {name for adoption in finished for name in adoption.files()}
    epoch = epochs.in_flight
    if epoch is not None:
        needed |= _files_of(read_manifest(storage.path, epoch))
    for table in storage.tables():
        for name in table.orphans():
            repeated = epoch is not None and name.startswith(f"e{epoch:012d}-") and name.endswith(".parquet")
            if name not in needed and not repeated:
                remove(os.path.join(table.folder, name))
