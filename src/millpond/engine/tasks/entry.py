"""What runs inside workers: small functions that find everything by pond folder and epoch, and cache what they read."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from millpond import functions
from millpond.catalog import Catalog
from millpond.catalog.log import snapshot_path
from millpond.engine.tasks.mapping import map_split
from millpond.engine.tasks.merging import merge_shard
from millpond.manifests.records import Manifest, manifest_path, read_manifest
from millpond.operators.registry import Operators, operators_of
from millpond.support.file_cache import FileCache
from millpond.tables import read_record
from millpond.tables.chunks import Payload
from millpond.tables.executors import Parcel
from millpond.types import to_json
from millpond.windows import registered

#: What this process loads, or has loaded, before it is needed.
_loading: dict[Callable[[], None] | None, threading.Thread] = {}

_catalogs: FileCache[tuple[Catalog, Operators]] = FileCache(1)
_manifests: FileCache[Manifest] = FileCache(1)


def catalog_at(pond: str, version: int) -> tuple[Catalog, Operators]:
    """The catalog of a version and its operators, read once per process."""
    path = snapshot_path(os.path.join(pond, "catalog"), version)

    def read() -> tuple[Catalog, Operators]:
        catalog = read_record(Catalog, path)
        return catalog, operators_of(catalog)

    return _catalogs.get(path, read)


def manifest_at(pond: str, epoch: int) -> Manifest:
    """The manifest of an epoch, read once per process."""
    return _manifests.get(manifest_path(pond, epoch), lambda: read_manifest(pond, epoch))


def map_epoch(pond: str, epoch: int, task: int) -> Iterator[Parcel]:
    """Map task `task` of an epoch."""
    registered.use(pond)
    functions.use(pond)
    manifest = manifest_at(pond, epoch)
    catalog, operators = catalog_at(pond, manifest.version)
    for load in {operator.loads for operator in operators} - {None, *_loading}:
        # Any worker may get the next merge task; meanwhile it can get ready beside its map tasks.
        _loading[load] = threading.Thread(target=load, name="millpond-load")
        _loading[load].start()
    return map_split(pond, manifest, catalog, operators, task)


def merge_epoch(pond: str, epoch: int, shard: int, parcels: Sequence[Parcel]) -> tuple[dict[str, Any], Payload]:
    """Merge task of a shard in an epoch."""
    registered.use(pond)
    functions.use(pond)
    manifest = manifest_at(pond, epoch)
    catalog, operators = catalog_at(pond, manifest.version)
    return to_json(merge_shard(pond, manifest, catalog, operators, shard, parcels)), b""
