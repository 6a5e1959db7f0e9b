"""Whether a pond's files are as its records say: what is lost is told at opening, and never by wrong answers."""

from __future__ import annotations

import os
from collections.abc import Iterator

from millpond.catalog.catalogs import Catalogs
from millpond.engine.intake.live_storage import LiveStorage
from millpond.manifests.epochs import Epochs
from millpond.manifests.records import read_manifest, recorded
from millpond.support.errors import PondError


def check_files(path: str, catalogs: Catalogs, epochs: Epochs, storage: LiveStorage) -> None:
    """Compare what was opened with the last manifest and the last publish record.

    Raises: PondError for the first file that lacks what epochs had seen in it.
    """
    for file, what in _lost(path, catalogs, epochs, storage):
        raise PondError(f"the pond {path} is damaged: {file} {what}; restore the pond, or this part of it, from a copy")


def _lost(path: str, catalogs: Catalogs, epochs: Epochs, storage: LiveStorage) -> Iterator[tuple[str, str]]:
    """The files that lack something, and what."""
    published, last = epochs.published, epochs.last_manifest
    if last > published.epoch + 1:
        yield "published/", f"ends with epoch {published.epoch}, and epoch {last} was begun"
    if last in recorded(path, "manifests"):
        manifest = read_manifest(path, last)
        yield from _shorter("catalog/events.jsonl", "events", catalogs.catalog.version, manifest.version, last)
        yield from _shorter("catalog/register.jsonl", "events", catalogs.register.version, manifest.register, last)
        taken = manifest.intake
    else:
        taken = published.intake
    for number, runtime in storage.streams.items():
        log = os.path.relpath(runtime.log.path, path)
        yield from _shorter(log, "items", runtime.log.length, taken.get(str(number), 0), last)
    tables = {"state": storage.state, "results": storage.results}
    # One that was made since has the name of one that was dropped, perhaps.
    known = [r for number, r in storage.streams.items() if str(number) in published.intake]
    tables |= {f"streams/{r.definition.name}": r.archive for r in known}
    for name, table in tables.items():
        wanted = published.tables.get(name, 0)
        yield from _shorter(f"{table.folder}/_delta_log", "versions", table.version, wanted, published.epoch)


def _shorter(file: str, what: str, have: int, wanted: int, epoch: int) -> Iterator[tuple[str, str]]:
    if have < wanted:
        yield file, f"has {have} of the {wanted} {what} that epoch {epoch} saw"
