"""What runs inside workers: small functions that find everything by pond folder and epoch, and cache what they read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from millpond import functions
from millpond.catalog import Catalog
from millpond.catalog.log import catalog_from_json, snapshot_path
from millpond.engine.mapping import Parcel, map_split
from millpond.engine.merging import merge_shard
from millpond.engine.records import Manifest, manifest_path, read_manifest
from millpond.tables import read_json
from millpond.tables.chunks import Payload
from millpond.windows import registered

_catalogs: dict[tuple[str, int], Catalog] = {}
_manifests: dict[tuple[str, int, int], Manifest] = {}


def catalog_at(pond: str, pond_id: str, version: int) -> Catalog:
    """The catalog of a version, read once per process."""
    key = (pond_id, version)
    if key not in _catalogs:
        _catalogs.clear()
        _catalogs[key] = catalog_from_json(read_json(snapshot_path(os.path.join(pond, "catalog"), version)))
    return _catalogs[key]


def manifest_at(pond: str, pond_id: str, epoch: int) -> Manifest:
    """The manifest of an epoch, read once per process."""
    key = (pond_id, epoch, os.stat(manifest_path(pond, epoch)).st_ino)
    if key not in _manifests:
        _manifests.clear()
        _manifests[key] = read_manifest(pond, epoch)
    return _manifests[key]


def map_epoch(pond: str, pond_id: str, epoch: int, task: int) -> Iterator[Parcel]:
    """Map task `task` of an epoch."""
    registered.use(pond)
    functions.use(pond)
    manifest = manifest_at(pond, pond_id, epoch)
    return map_split(pond, manifest, catalog_at(pond, pond_id, manifest.version), task)


def merge_epoch(
    pond: str, pond_id: str, epoch: int, shard: int, parcels: Sequence[Parcel]
) -> tuple[dict[str, Any], Payload]:
    """Merge task of a shard in an epoch."""
    registered.use(pond)
    functions.use(pond)
    manifest = manifest_at(pond, pond_id, epoch)
    return merge_shard(pond, pond_id, manifest, catalog_at(pond, pond_id, manifest.version), shard, parcels), b""
