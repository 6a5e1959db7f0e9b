"""Runs the life of a pond and notes what it writes: name and checksum of every file, step by step, and all answers."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import random
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

import millpond
from millpond.testing.clock import VirtualClock

BASE = dt.datetime(2026, 1, 1)
#: Folders of a pond whose files are results of epochs; the others hold logs, records and caches.
FOLDERS = ("streams", "copies", "dead", "state", "results", "summaries", "tables", "intake")
#: Answers that are longer are recorded as their first lines and a checksum.
LINES = 24

Rows = list[dict[str, Any]]
Record = dict[str, Any]


def batch(number: int, stream: str = "s") -> Rows:
    """Rows of one step, 20 seconds of event time: disorder and ties; from the third on late ones.

    Those of `s` run ahead once, by a day: dead letters where the stream has a limit.
    """
    rng = random.Random(f"{stream}{number}")
    count, disorder = (14, 5) if stream == "s" else (9, 3)
    times = [20 * number + (i * 40 // count + rng.randint(-disorder, disorder)) / 2 for i in range(count)]
    if number > 1:
        times += [20 * number - 27.5, 3.0 + 7 * number]
    if number == 3 and stream == "s":
        times.append(86_400.0)
    return [_row(stream, max(0.0, at), rng) for at in times]


def _row(stream: str, at: float, rng: random.Random) -> dict[str, Any]:
    ts = BASE + dt.timedelta(seconds=at)
    key = rng.choice(["a", "b", "d", "a", None] if rng.random() < 0.4 else "abd")
    if stream == "s":
        value = None if rng.random() < 0.06 else rng.randrange(100)
        return {"ts": ts, "k": key, "v": value, "x": rng.choice([0.1, 0.7, 1e15, -1e15, rng.random()])}
    return {"ts": ts, "k": key, "w": rng.randrange(100)}


@dataclass(frozen=True)
class Kind:
    """What is recorded of one kind of query.

    streams: statements that come first; `{dir}` is a folder of the pond's own. queries: by name, what stands behind
    CREATE QUERY and the name. past: of these a twin `<name>_past` is registered in the middle, with its history; the
    first twin is dropped again. pauses: which query is paused for a batch; None: the first one. later: statements in
    the middle. asks: SELECTs and INVOKEs at the end, beside those that every query gets. settings: of the opening.
    batches: how many. feeds: rows by stream and number of the batch. opening: what else a pond is opened with. prepare:
    called with the pond after each opening. beside: called with the folder and the number of the batch before each of
    them, and with -1 before the streams are made.
    """

    streams: str
    queries: Mapping[str, str] = field(default_factory=dict)
    past: Sequence[str] = ()
    later: str = ""
    asks: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    batches: int = 4
    feeds: Callable[[int], Mapping[str, Rows]] = lambda n: {"s": batch(n), "r": batch(n, "r")}
    opening: Callable[[], Mapping[str, Any]] = dict
    prepare: Callable[[Any], None] = lambda pond: None
    beside: Callable[[Path, int], None] = lambda folder, number: None
    pauses: str | None = None


class Life:
    """One life of a pond; `record` is what is compared."""

    def __init__(self, kind: Kind, folder: Path, shards: int, pond_id: str) -> None:
        self.kind, self.folder, self.shards, self.pond_id = kind, folder, shards, pond_id
        self.clock = VirtualClock()
        #: Of each file: when it was written, and the checksum of its content.
        self.written: dict[str, int] = {}
        self.seen: dict[str, str] = {}
        self.record: Record = {"files": {}, "answers": {}}
        self.whole: dict[str, list[str]] = {}
        self.pond: Any = None

    def run(self) -> Record:
        """From the making of the pond to its last answer."""
        kind = self.kind
        self.open()
        try:
            kind.beside(self.folder, -1)
            self.sql(kind.streams)
            for name, text in kind.queries.items():
                self.sql(f"CREATE QUERY {name} {text}")
            half = kind.batches // 2
            for number in range(half):
                self.feed(number)
            paused = kind.pauses or next(iter(kind.queries), None)
            if paused is not None:
                self.sql(f"ALTER QUERY {paused} PAUSE")
            self.feed(half)
            self.reopen()
            if paused is not None:
                self.sql(f"ALTER QUERY {paused} RESUME")
            self.clock.advance(10_000_000)
            self.epochs("resumed", force=True)
            self.come_later()
            for number in range(half + 1, kind.batches):
                self.feed(number)
                self.pond.maintain()
                self.note(f"upkeep {number}")
            if kind.past:
                self.sql(f"DROP QUERY {kind.past[0]}_past")
            self.reopen()
            self.clock.advance(10_000_000)
            self.epochs("tick")
            self.ask("open", [f"INVOKE {name}" for name in self.kept])
            self.pond.drain(final=True)
            self.note("end")
            self.last_words()
        finally:
            self.pond.close()
        return self.record

    def open(self) -> None:
        """Open the pond, with few files to a merge, so that merges happen."""
        settings = {"shards": self.shards, "compact_files": 3, "settle": 0, **self.kind.settings}
        path = str(self.folder / "pond")
        # What a pond keeps of functions and kinds of windows is named after its id, which is drawn.
        with mock.patch("uuid.uuid4", lambda: uuid.uuid5(uuid.NAMESPACE_OID, self.pond_id)):
            self.pond = millpond.open(path, executor="inline", clock=self.clock, **settings, **self.kind.opening())
        self.kind.prepare(self.pond)

    def reopen(self) -> None:
        """Close the pond and open it again: nothing that is kept in memory may show in what it writes."""
        self.pond.close()
        self.open()

    def sql(self, text: str) -> None:
        """Execute statements."""
        self.pond.sql(text.replace("{dir}", str(self.folder)))

    def feed(self, number: int) -> None:
        """Take a batch in: the second one stream by stream, an epoch each."""
        self.kind.beside(self.folder, number)
        self.clock.advance(1_000_000)
        for stream, rows in self.kind.feeds(number).items():
            self.pond.ingest(stream, rows)
            if number == 1:
                self.epochs(f"batch {number} of {stream}")
        self.epochs(f"batch {number}")

    def epochs(self, stage: str, force: bool = False) -> None:
        """Run epochs until nothing waits; `force`: one at least. Files are noted after each: some live no longer."""
        epoch = 0
        while self.pond.step(force=force and not epoch):
            self.note(stage)
            epoch += 1
        self.note(stage)

    def come_later(self) -> None:
        """Back-filled twins and what else begins in the middle; rows come before the back-fill has run."""
        for name in self.kind.past:
            text = self.kind.queries[name]
            options, rest = ("", text) if not text.startswith("WITH (") else (", ", text[len("WITH (") :])
            since = f"WITH (since='start'{options or ') '}"
            self.sql(f"CREATE QUERY {name}_past {since}{rest}")
        if self.kind.later:
            self.sql(self.kind.later)
        if self.kind.past or self.kind.later:
            self.epochs("later")

    def last_words(self) -> None:
        """What is asked when everything has been answered."""
        standing = [name for name in self.kept if self.is_standing(name)]
        self.ask("end", [f"SELECT * FROM {name}" for name in standing])
        self.ask("end", [f"SELECT * FROM {name} ALL REVISIONS" for name in standing])
        self.ask("end", self.kind.asks)
        self.record["active"] = self.active()

    @property
    def kept(self) -> list[str]:
        """The queries that live on to the end."""
        return [*self.kind.queries, *(f"{name}_past" for name in self.kind.past[1:])]

    def is_standing(self, name: str) -> bool:
        """Whether a query answers by itself, not only when it is invoked."""
        return "[" in self.kind.queries[name.removesuffix("_past")]

    def ask(self, when: str, texts: Sequence[str]) -> None:
        """Note answers as text, in the order in which they come."""
        for text in texts:
            table = self.pond.sql(text).table
            lines = [] if table is None else as_lines(table)
            self.whole[f"{when}: {text}"] = lines
            shown = lines
            if len(lines) > LINES:
                digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
                shown = [*lines[:LINES], f"… {len(lines)} lines, {digest}"]
            self.record["answers"][f"{when}: {text}"] = shown

    def note(self, stage: str) -> None:
        """Note files that are new since the last time; one that was written again with other bytes is noted again."""
        new: dict[str, str] = {}
        for path, name in self.files():
            try:
                written = path.stat().st_mtime_ns
                if self.written.get(name) == written:
                    continue
                digest = hashlib.sha256(self.content(path)).hexdigest()[:16]
            except FileNotFoundError:
                continue
            self.written[name] = written
            if self.seen.get(name) != digest:
                self.seen[name] = new[name] = digest
        if new:
            self.record["files"].setdefault(stage, {}).update(new)

    def content(self, path: Path) -> bytes:
        """What is compared of a file: its bytes, with exceptions.

        Of dead letters it is the rows, without the folder that they came from. Of Arrow files too: the values that lie
        under NULLs in them are whatever was in memory. Of state and results it is the chunks, each with its bytes, in
        whatever order they stand in the file.
        """
        if path.suffix == ".arrow":
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_file(source).read_all()
            return f"{table.schema} {table.to_pylist()}".encode()
        top = path.relative_to(self.folder / "pond").parts[0]
        if top == "dead":
            return repr(pq.read_table(path).to_pylist()).replace(str(self.folder), "…").encode()
        if top in ("state", "results", "summaries"):
            chunks = pq.read_table(path)
            return f"{chunks.schema} {sorted(repr(chunk) for chunk in chunks.to_pylist())}".encode()
        return path.read_bytes()

    def files(self) -> Iterator[tuple[Path, str]]:
        """Files of epochs, with their names within the pond."""
        pond = self.folder / "pond"
        for top in FOLDERS:
            for folder, within, names in os.walk(pond / top):
                within[:] = sorted(n for n in within if n not in ("_delta_log", "landing"))
                for name in sorted(names):
                    if name.endswith((".parquet", ".arrow")):
                        path = Path(folder, name)
                        yield path, path.relative_to(pond).as_posix()

    def active(self) -> dict[str, str]:
        """Of every table: how many files its last version has, and a checksum of their names."""
        found = {}
        for log in sorted((self.folder / "pond").rglob("_delta_log")):
            names = sorted(Path(p).name for p in DeltaTable(str(log.parent)).file_uris())
            digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
            found[log.parent.relative_to(self.folder / "pond").as_posix()] = f"{len(names)} files, {digest}"
        return found


def as_lines(table: pa.Table) -> list[str]:
    """A table as text: its columns with their types, then a line per row."""
    head = ", ".join(f"{f.name} {f.type}" for f in table.schema)
    return [head, *(" | ".join(_text(v) for v in row.values()) for row in table.to_pylist())]


def _text(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return value.strftime("%m-%d %H:%M:%S") + (f".{value.microsecond:06}" if value.microsecond else "")
    return "NULL" if value is None else repr(value)
