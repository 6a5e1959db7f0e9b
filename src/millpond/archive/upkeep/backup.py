"""Backup of a pond while it runs or rests: a folder with all that the pond had published at one epoch, ready to open.

Files that epochs and upkeep write are immutable, so they are linked or copied once, and a second backup into the same
folder adds what is new. What grows is cut where the chosen epoch ends: a Delta log before the first commit of a later
epoch, publish records and manifests behind it. When upkeep takes a file away meanwhile, a newer epoch is chosen.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace

from millpond.archive.copy_files import copies_on_disk, copy_folder
from millpond.archive.upkeep.checking import catalog_on_disk
from millpond.manifests.records import last_record, read_published
from millpond.sources.table_sources.versions import CONNECTION, TABLES
from millpond.support.errors import PondError
from millpond.tables import sync_folder
from millpond.tables.locations import file_names, is_remote, read_bytes
from millpond.tables.segments import live_segments
from millpond.types import to_json

#: Folders with Delta tables, each in a folder of its own or (state, results, summaries) one.
_TABLES = ("streams", "copies", "dead", "state", "results", "summaries")

#: What is copied as it is. All but `catalog` may be missing.
_WHOLE = ("catalog", "backfills", "functions", "server")

#: How often a newer epoch is chosen before the backup gives up.
_ATTEMPTS = 20

MARK = "backup.json"


@dataclass(frozen=True)
class Backup:
    """What a backup has. epoch: the last published one in it. files, bytes: of tables; new: bytes that were added."""

    epoch: int
    files: int
    bytes: int
    new: int


class _Moved(Exception):
    """The pond went on while it was copied."""


def backup(pond: str, target: str) -> Backup:
    """Make or renew a backup of the pond in folder `pond` in the folder `target`.

    Raises: PondError when there is no pond, `target` holds something else, or files change faster than they are copied.
    """
    pond, target = os.path.abspath(pond), os.path.abspath(target)
    catalog_on_disk(pond)
    if os.path.isdir(target) and os.listdir(target) and not os.path.exists(os.path.join(target, MARK)):
        raise PondError(f"{target} holds something that is no backup; name another folder")
    if os.path.commonpath([pond, target]) == pond:
        raise PondError(f"{target} lies in the pond itself; name a folder outside of it")
    os.makedirs(target, exist_ok=True)
    _write(os.path.join(target, MARK), b'{"complete":false}')
    fault: Exception | None = None
    for _ in range(_ATTEMPTS):
        try:
            made = _attempt(pond, target)
            _write(os.path.join(target, MARK), json.dumps({"complete": True, "epoch": made.epoch}).encode())
            return made
        except (_Moved, FileNotFoundError) as error:
            fault = error
    raise PondError(f"the pond {pond} changes faster than it can be copied ({fault}); stop it, or use a snapshot")


def restore(source: str, pond: str) -> int:
    """Copy a backup to the folder `pond`, which must be empty or missing. Returns: the epoch that it is as of.

    Raises: PondError when `source` is no complete backup, or `pond` is not empty.
    """
    mark = os.path.join(source, MARK)
    if not os.path.exists(mark):
        raise PondError(f"{source} is no backup: it has no {MARK}")
    with open(mark, "rb") as file:
        found = json.loads(file.read())
    if not found["complete"]:
        raise PondError(f"the backup in {source} was cut off; make it again before it is restored")
    if os.path.isdir(pond) and os.listdir(pond):
        raise PondError(f"{pond} is not empty; a backup is restored to a new folder")
    shutil.copytree(source, pond, ignore=shutil.ignore_patterns(MARK), dirs_exist_ok=True)
    return int(found["epoch"])


def _attempt(pond: str, target: str) -> Backup:
    epoch = last_record(pond, "published")
    places = _places(pond)
    needed = set(places)
    for folder in _tables(target):
        if folder not in needed:
            shutil.rmtree(os.path.join(target, folder))
    files = size = new = 0
    for folder, place in places.items():
        _, more, total, added = _table(place, target, folder, epoch)
        files, size, new = files + more, size + total, new + added
    for kind in ("manifests", "published"):
        _records(pond, target, kind, epoch)
    for name in _WHOLE:
        if os.path.isdir(os.path.join(pond, name)):
            _mirror(os.path.join(pond, name), os.path.join(target, name))
    _mirror(os.path.join(pond, "intake"), os.path.join(target, "intake"), first=("feeds", "intake.jsonl"))
    # How databases are reached may hold passwords, which a backup is no place for: ALTER TABLE … SET (uri = …) says it.
    _mirror(os.path.join(pond, TABLES), os.path.join(target, TABLES), first=("state.json",), without=CONNECTION)
    _adoptions(pond, target)
    for name in ("pond.json", "fence.json"):
        _write(os.path.join(target, name), _read(os.path.join(pond, name)))
    _bring_home(target)
    copied = catalog_on_disk(target)
    called = [os.path.join("functions", f"{d.reference}.pickle") for d in copied.functions.values()]
    for file in [*copied.reductions.values(), *called]:
        if not os.path.exists(os.path.join(target, file)):
            raise _Moved(f"{file} was replaced meanwhile")
    _check_intake(pond, target, epoch)
    for root, _, _ in os.walk(target):
        sync_folder(root)
    return Backup(epoch, files, size, new)


def _tables(pond: str) -> Iterator[str]:
    for kind in _TABLES:
        for root, folders, _ in os.walk(os.path.join(pond, kind)):
            if "_delta_log" in folders:
                yield os.path.relpath(root, pond)
            folders[:] = [f for f in folders if f != "_delta_log" and not f.startswith(".")]


def _places(pond: str) -> dict[str, str]:
    """Where the tables of a pond are, by the folders that they have in a backup; those in object stores among them."""
    found = {folder: os.path.join(pond, folder) for folder in _tables(pond)}
    for stream in catalog_on_disk(pond).streams.values():
        if stream.options.archive_at is not None:
            name = stream.folder
            found[os.path.join("streams", name)] = copy_folder(pond, stream, "")
            for copy in copies_on_disk(pond, stream):
                found[os.path.join("copies", name, copy)] = copy_folder(pond, stream, copy)
    return found


def _bring_home(target: str) -> None:
    """A backup holds the archives that lie in object stores; they lie in its own folder, also once it is opened."""
    events = []
    for stream in catalog_on_disk(target).streams.values():
        if stream.options.archive_at is not None:
            local = replace(stream, options=replace(stream.options, archive_at=None))
            events.append({"do": "alter_stream", "id": stream.id, "definition": to_json(local)})
    path = os.path.join(target, "catalog", "events.jsonl")
    _write(path, _read(path) + b"".join(json.dumps(e, separators=(",", ":")).encode() + b"\n" for e in events))


def _table(place: str, target: str, folder: str, epoch: int) -> tuple[int, int, int, int]:
    """Copy a Delta table as of the last commit before one of a later epoch.

    Arguments:
        place: where it is. folder: where its copy is, in the folder `target`.
    Returns: its version, how many files and bytes it has, and how many bytes are new.
    """
    source, there = os.path.join(place, "_delta_log"), os.path.join(target, folder, "_delta_log")
    os.makedirs(there, exist_ok=True)
    logs = sorted(n for n in file_names(source) if re.fullmatch(r"\d{20}\.(json|checkpoint.*\.parquet)", n))
    version = -1
    for name in (n for n in logs if n.endswith(".json")):
        if _epoch_of(read_bytes(os.path.join(source, name))) > epoch:
            break
        version = int(name[:20])
    kept = [n for n in logs if int(n[:20]) <= version]
    if not kept or (not kept[0].startswith("0" * 20) and not any("checkpoint" in n for n in kept)):
        raise _Moved(f"{folder} has no log that reaches back to epoch {epoch}")
    for name in os.listdir(there):
        if name not in kept:
            os.unlink(os.path.join(there, name))
    for name in kept:
        _write(os.path.join(there, name), read_bytes(os.path.join(source, name)))
    live = live_segments(os.path.join(target, folder))
    new = 0
    for segment in live:
        copied = os.path.join(target, folder, segment.path)
        if not os.path.exists(copied) or os.path.getsize(copied) != segment.size:
            _take(os.path.join(place, segment.path), copied)
            new += segment.size
    names = {s.path for s in live}
    for name in os.listdir(os.path.join(target, folder)):
        if name.endswith((".parquet", ".tmp")) and name not in names:
            os.unlink(os.path.join(target, folder, name))
    return version, len(live), sum(s.size for s in live), new


def _epoch_of(log: bytes) -> int:
    """The epoch that a commit belongs to; -1 for one of upkeep."""
    for line in log.splitlines():
        if b'"txn"' in line:
            transaction = json.loads(line).get("txn", {})
            if transaction.get("appId") == "epoch":
                return int(transaction["version"])
    return -1


def _records(pond: str, target: str, kind: str, epoch: int) -> None:
    source, there = os.path.join(pond, kind), os.path.join(target, kind)
    os.makedirs(there, exist_ok=True)
    names = {n for n in os.listdir(source) if n.endswith(".json") and int(n[:-5]) <= epoch}
    if epoch and kind == "published" and f"{epoch:012d}.json" not in names:
        raise _Moved(f"epoch {epoch} is not kept any more")
    for name in set(os.listdir(there)) - names:
        os.unlink(os.path.join(there, name))
    for name in names - set(os.listdir(there)):
        _take(os.path.join(source, name), os.path.join(there, name))


def _mirror(source: str, target: str, first: tuple[str, ...] = (), without: str = "") -> None:
    """Copy a folder as it is, but for files called `without`; what is named in `first` before the others. What is gone
    from the source goes."""
    os.makedirs(target, exist_ok=True)
    # A feed's checkpoint that is older than the log repeats batches, which the log knows; a newer one would skip some.
    names = sorted((n for n in os.listdir(source) if n != without), key=lambda n: (n not in first, n))
    for name in set(os.listdir(target)) - set(names):
        path = os.path.join(target, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    for name in names:
        one, other = os.path.join(source, name), os.path.join(target, name)
        if os.path.isdir(one):
            _mirror(one, other, first, without)
        elif not name.endswith(".tmp"):
            _write(other, _read(one))


def _adoptions(pond: str, target: str) -> None:
    """Finished back-fills name files that no commit names yet."""
    folder = os.path.join(target, "backfills")
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if name.endswith(".json"):
            record = json.loads(_read(os.path.join(folder, name)))
            for kind in ("state", "results"):
                for segment in record.get(kind, ()):
                    copied = os.path.join(target, kind, segment["path"])
                    if not os.path.exists(copied):
                        _take(os.path.join(pond, kind, segment["path"]), copied)
            for stream, segments in record.get("dead", {}).items():
                folders = os.listdir(os.path.join(target, "dead"))
                for place in (f for f in folders if f.rsplit("-", 1)[1] == stream):
                    for segment in segments:
                        copied = os.path.join(target, "dead", place, segment["path"])
                        if not os.path.exists(copied):
                            _take(os.path.join(pond, "dead", place, segment["path"]), copied)


def _check_intake(pond: str, target: str, epoch: int) -> None:
    """Whether what was taken in and is not archived yet has been copied, too; later epochs give their rows anew."""
    taken = read_published(pond, epoch).intake if epoch else {}
    for folder in os.listdir(os.path.join(target, "intake")):
        log = os.path.join(target, "intake", folder, "intake.jsonl")
        kept: list[bytes] = []
        for line in _read(log).splitlines(keepends=True) if os.path.exists(log) else []:
            if not line.endswith(b"}\n"):
                continue  # torn
            item = json.loads(line)
            beyond = item.get("kind") == "derived" and item["epoch"] > epoch
            if beyond or (item.get("end") and item.get("items", 0) > len(kept)):
                continue
            kept.append(line)
            kind = item.get("kind")
            if kind not in ("landing", "derived") or item["ordinal"] < taken.get(folder.rsplit("-", 1)[1], 0):
                continue
            place = os.path.join(target, "intake", folder, os.path.dirname(item["path"]))
            for name in [os.path.basename(item["path"])] if kind == "landing" else item["parts"]:
                if not os.path.exists(os.path.join(place, name)):
                    raise _Moved(f"{name} was archived meanwhile")
        if os.path.exists(log):
            _write(log, b"".join(kept))


def _take(source: str, target: str) -> None:
    """Link an immutable file, or copy it where it cannot be linked."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if is_remote(source):
        _write(target, read_bytes(source))
        return
    temporary = target + ".tmp"
    if os.path.exists(temporary):
        os.unlink(temporary)
    try:
        os.link(source, temporary)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, temporary)
    os.replace(temporary, target)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _write(path: str, data: bytes) -> None:
    temporary = path + ".tmp"
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
