"""The register: every standing row query of a pond (PSoup's Query SteM), by the hundred thousand.

Definitions lie in an append-only log and are read when asked for; memory holds some numbers per query, names, and per
stream the predicate index. `register_log` keeps the file, `checkpoints` makes opening quick, `shipping` brings the
indexes to workers.
"""

from __future__ import annotations

import gc
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import chain, islice
from typing import Any

import numpy as np

from millpond.catalog import shipping
from millpond.catalog.checkpoints import Checkpoint, read_checkpoint, write_checkpoint
from millpond.catalog.indexes import Indexes
from millpond.catalog.register_lines import (
    NewSelection,
    Registered,
    RegisterStatus,
    add_fragment,
    add_line,
    as_added,
    boxes_in,
    fit_event,
    other_line,
)
from millpond.catalog.register_log import Entry, RegisterLog
from millpond.catalog.register_reading import Reading
from millpond.catalog.register_rows import OPTIONS, PAUSED, STATUS, Rows
from millpond.support.errors import QueryError, Refusal
from millpond.types import RowQuery

#: Events behind a checkpoint after which a new one is worth while.
TAIL = 4096

#: Dead lines that a log must have before it is rewritten.
DEAD = 4096

#: As long as a name in a statement may be, so that every query can be named in one.
_LONGEST_NAME = 128

#: Events that are replayed together.
_CHUNK = 4096


def check_name(name: str) -> None:
    """Raises: Refusal when a query cannot be called so."""
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise Refusal(f"a query's name has 1 to {_LONGEST_NAME} printable characters")
    if name.startswith("#"):
        raise Refusal("names that start with # are those of queries without a name")
    if name.isascii() and name.isdigit():
        raise Refusal("a name of digits alone could be taken for a query's id; add a letter")


class Register(Reading):
    """All selections of a pond. Every method may be called from any thread; what returns is durable.

    Arguments:
        pond: the pond's folder; the register is `catalog/register.jsonl` in it.
        next_id: the least id that nothing else has.
        taken: whether the catalog has something of a name.
        definitions: how many parsed definitions are kept in memory.

    >>> import tempfile
    >>> from millpond.types import Output, RowQuery, RowScan, Side
    >>> register = Register(tempfile.mkdtemp())
    >>> query = RowQuery(RowScan(stream="s", select=(Output("a", Expression.column_of("a", "INTEGER")),)), (Side("s"),))
    >>> [number] = register.add([NewSelection(query, streams=(7,), name="all_of_s")])
    >>> register.get(number).name, register.by_name("ALL_OF_S").id == number, register.on_stream(7).tolist()
    ('all_of_s', True, [1])
    """

    def __init__(
        self,
        pond: str,
        next_id: int = 1,
        taken: Callable[[str], bool] = lambda name: False,
        definitions: int = 4096,
    ) -> None:
        self.pond = pond
        self._folder = os.path.join(pond, "catalog")
        os.makedirs(self._folder, exist_ok=True)
        self._taken = taken
        self._lock = threading.RLock()
        self._upkeep = threading.Lock()
        self._rows = Rows()
        self._by_name: dict[str, int] = {}
        self._claimed: set[str] = set()
        self._going: set[int] = set()
        self._closed_streams: set[int] = set()
        self._pending_owners: dict[str, int] = {}
        self._cache: OrderedDict[int, Registered] = OrderedDict()
        self._most = definitions
        self._indexes = Indexes(pond, self.name)
        self._log = RegisterLog(os.path.join(self._folder, "register.jsonl"))
        self._next_id = max(next_id, self._log.next_id)
        self._seq = self._log.first
        self._lines = 0
        self._checkpointed = -1
        self._load()

    # --- opening ------------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        offset = self._log.start
        found = read_checkpoint(self._folder, self._log.generation, self._log.size)
        if found is not None and self._indexes.load(found.bases, found.users):
            self._rows, self._seq, offset = found.to_rows(), found.version, found.offset
            self._next_id = max(self._next_id, found.next_id)
            self._lines = found.lines
            self._checkpointed = found.version
            ids = self._rows.all["id"].tolist()
            self._by_name = {n.lower(): i for n, i in zip(self._rows.names, ids, strict=True) if n is not None}
        self._end = offset
        collects = gc.isenabled()
        gc.disable()  # a hundred thousand queries are many objects, and none of them is garbage
        try:
            lines = self._log.replay(offset)
            while chunk := list(islice(lines, _CHUNK)):
                with self._indexes.many():
                    for at, length, event in chunk:
                        self._apply(event, at, length)
        finally:
            if collects:
                gc.enable()

    def _apply(self, event: dict[str, Any], offset: int, length: int) -> None:
        """One event takes effect: in memory, in the order of the log."""
        self._seq += 1
        self._lines += 1
        self._end = offset + length
        do, query = event["do"], event.get("id", 0)
        if do == "add":
            if (old := event.get("replaces")) is not None:
                self._forget(old)
            name = event.get("name")
            streams = tuple(event["streams"])
            option = event.get("options", {}).get("materialize", "auto")
            self._rows.append(
                query, offset, length, name, event.get("owner", ""), streams, event.get("epoch", 0), option
            )
            if name is not None:
                self._by_name[name.lower()] = query
            self._next_id = max(self._next_id, query + 1)
            if option != "none":
                self._indexes.add(query, streams, [boxes_in(s) for s in event["selection"]["sides"]])
        elif do == "fit":
            self._fitted(query, offset, length, [boxes_in(s) for s in event["selection"]["sides"]])
        elif do == "drop":
            for number in event["ids"]:
                self._forget(number)
        elif do == "status":
            self._set(query, event["status"])
        elif do == "drop_stream":
            for at in self._rows.on_stream(event["stream"]):
                self._forget(int(self._rows.all["id"][at]))
            self._indexes.drop_stream(event["stream"])
        else:
            raise ValueError(f"unknown register event {do!r}")

    def _forget(self, query: int) -> None:
        at = self._rows.slot(query)
        if at is None:
            return
        name = self._rows.names[at]
        if name is not None and self._by_name.get(name.lower()) == query:
            del self._by_name[name.lower()]
        self._indexes.remove(query, self._rows.streams_of(at))
        self._rows.drop(at)
        self._cache.pop(query, None)

    def _fitted(self, query: int, offset: int, length: int, boxes: list[Any]) -> None:
        """A query that stays what it is, under its id, has another definition: the line at `offset`."""
        at = self._rows.slot(query)
        if at is None:  # replaced meanwhile
            return
        row = self._rows.all[at]
        row["offset"], row["length"] = offset, length
        self._cache.pop(query, None)
        if row["status"] != PAUSED and OPTIONS[row["option"]] != "none":
            streams = self._rows.streams_of(at)
            self._indexes.remove(query, streams)
            self._indexes.add(query, streams, boxes)

    def _set(self, query: int, status: str) -> None:
        at = self._rows.slot(query)
        if at is None:
            return
        row = self._rows.all[at]
        row["status"] = STATUS.index(status)
        self._cache.pop(query, None)
        if status == "paused":
            self._indexes.remove(query, self._rows.streams_of(at))
        elif OPTIONS[row["option"]] != "none":
            event = self._log.event(int(row["offset"]), int(row["length"]))
            boxes = [boxes_in(s) for s in event["selection"]["sides"]]
            self._indexes.add(query, self._rows.streams_of(at), boxes)

    # --- changing -----------------------------------------------------------------------------------------------------

    def add(self, queries: Sequence[NewSelection], limit: int | None = None) -> list[int]:
        """Register queries, all or none of them; their ids, in order.

        Arguments:
            limit: how many queries one owner may have.
        Raises:
            QueryError: a name is taken or no name, a stream is gone, or an owner would have more than `limit`.
            PondError: the log cannot be written.
        """
        fragments = [add_fragment(q) for q in queries]
        owners: dict[str, int] = {}
        for new in queries:
            owners[new.owner] = owners.get(new.owner, 0) + 1
        names = [q.name.lower() for q in queries if q.name is not None]
        with self._lock:
            self._check(queries, owners, limit)
            ids = list(range(self._next_id, self._next_id + len(queries)))
            self._next_id += len(queries)
            self._claimed.update(names)
            for owner, count in owners.items():
                self._pending_owners[owner] = self._pending_owners.get(owner, 0) + count
            lines = [add_line(i, f) for i, f in zip(ids, fragments, strict=True)]

            def applied(offsets: list[int]) -> None:
                with self._lock, self._indexes.many():
                    for query, new, offset, line in zip(ids, queries, offsets, lines, strict=True):
                        self._added(query, new, offset, len(line))

            entry = self._log.enqueue(lines, applied)
        try:
            self._log.commit(entry)
        finally:
            with self._lock:
                self._claimed.difference_update(names)
                for owner, count in owners.items():
                    self._pending_owners[owner] -= count
                    if not self._pending_owners[owner]:
                        del self._pending_owners[owner]
        return ids

    def _check(self, queries: Sequence[NewSelection], owners: dict[str, int], limit: int | None) -> None:
        mine: set[str] = set()
        for new in queries:
            if any(s in self._closed_streams for s in new.streams):
                raise QueryError("a stream of the query is being dropped")
            if new.name is None:
                continue
            lower = new.name.lower()
            holder = self._by_name.get(lower)
            free = holder is None or holder == new.replaces
            if lower in mine or lower in self._claimed or not free or self._elsewhere(new.name, new.replaces):
                raise QueryError(f"the name '{new.name}' is taken; choose another, or drop the old one first")
            check_name(new.name)
            mine.add(lower)
        if limit is not None:
            for owner, count in owners.items():
                have = self._rows.count(owner) + self._pending_owners.get(owner, 0)
                if have + count > limit:
                    raise QueryError(f"'{owner}' has {have} of at most {limit} queries; drop some first")

    def _elsewhere(self, name: str, replaces: int | None) -> bool:
        # A query that takes over from one of the catalog comes first; the old one goes right after.
        at_home = replaces is None or self._rows.slot(replaces) is not None
        return at_home and self._taken(name)

    def _added(self, query: int, new: NewSelection, offset: int, length: int) -> None:
        self._seq += 1
        self._lines += 1
        self._end = offset + length
        if new.replaces is not None:
            self._forget(new.replaces)
        option = new.options.materialize
        self._rows.append(query, offset, length, new.name, new.owner, new.streams, new.epoch, option)
        if new.name is not None:
            self._by_name[new.name.lower()] = query
        if option != "none":
            self._indexes.add(query, new.streams, [s.boxes for s in new.selection.sides])

    def drop(self, *queries: int) -> None:
        """Drop queries, all or none of them.

        Raises: QueryError when there is no query of an id.
        """
        with self._lock:
            for query in queries:
                self._slot(query)
                if query in self._going:
                    raise QueryError(f"there is no query #{query}")
            self._going.update(queries)
        try:
            self._record({"do": "drop", "ids": list(queries)})
        finally:
            with self._lock:
                self._going.difference_update(queries)

    def set_status(self, query: int, status: RegisterStatus) -> None:
        """Pause ('paused') or resume ('live') a query.

        Raises: QueryError when there is no query of that id.
        """
        with self._lock:
            self._slot(query)
        self._record({"do": "status", "id": query, "status": status})

    def fit(self, selections: Mapping[int, RowQuery]) -> None:
        """Give queries that are registered already other definitions, durably, as one; those that are gone stay so.

        Arguments:
            selections: by id; over the same streams.
        """
        with self._lock:
            events = []
            for query, selection in selections.items():
                at = self._rows.slot(query)
                if at is not None and query not in self._going:
                    row = self._rows.all[at]
                    events.append(fit_event(self._log.event(int(row["offset"]), int(row["length"])), selection))
            entry = self._enqueue(events)  # before anything that asks for a place later: what drops one stands behind
        self._log.commit(entry)

    def close_stream(self, stream: int) -> list[int]:
        """Take no more queries on a stream that is to be dropped; ids of those that it has, coming ones included."""
        with self._lock:
            self._closed_streams.add(stream)
        self._record()  # whoever was let in before has been applied now
        return [int(q) for q in self.on_stream(stream)]

    def reopen_stream(self, stream: int) -> None:
        """Take queries on a stream again that is not dropped after all."""
        with self._lock:
            self._closed_streams.discard(stream)

    def drop_stream(self, stream: int) -> None:
        """Drop all queries on a stream that the catalog has dropped."""
        self._record({"do": "drop_stream", "stream": stream})

    def reconcile(self, streams: Iterable[int], queries: Iterable[tuple[str, int]]) -> list[int]:
        """At opening: finish what a crash between the catalog and the register has left half done.

        Arguments:
            streams, queries: streams, and names and ids of the queries, that the catalog has.
        Returns: ids of the catalog's queries whose names newer selections have taken over.
        """
        with self._lock:
            used = self._rows.streams
        for stream in used - set(streams):
            self.drop_stream(stream)
        older = []
        for name, query in queries:
            mine = self.id_of(name)
            if mine is None:
                continue
            if mine > query:
                older.append(query)
            else:
                self.drop(mine)
        return older

    def _record(self, *events: dict[str, Any]) -> None:
        with self._lock:
            entry = self._enqueue(events)
        self._log.commit(entry)

    def _enqueue(self, events: Sequence[dict[str, Any]]) -> Entry:
        """Give events a place in the log, where they take effect once they are durable; the lock must be held."""
        lines = [other_line(e) for e in events]

        def applied(offsets: list[int]) -> None:
            with self._lock, self._indexes.many() if len(events) > 1 else nullcontext():
                for event, offset, line in zip(events, offsets, lines, strict=True):
                    self._apply(event, offset, len(line))

        return self._log.enqueue(lines, applied)

    # --- names and ids ------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """How many events it has seen."""
        with self._lock:
            return self._seq

    @property
    def next_id(self) -> int:
        """From it on ids are free, until somebody reserves one."""
        with self._lock:
            return self._next_id

    def reserve_ids(self, first: int, count: int) -> bool:
        """Take the ids from `first` on; False when one of them has been given meanwhile, and then none is taken."""
        with self._lock:
            if first < self._next_id and count:
                return False
            self._next_id = max(self._next_id, first + count)
            return True

    def reserve_block(self, count: int) -> int:
        """So many ids for things of the catalog's; the first of them."""
        with self._lock:
            self._next_id += count
            return self._next_id - count

    @contextmanager
    def claim(self, name: str, replaces: int | None = None) -> Iterator[bool]:
        """While it is open nobody else can take a name; gives False when a selection has it or takes it now.

        Arguments:
            replaces: id of the selection that may have the name, since it is to be replaced.
        """
        lower = name.lower()
        with self._lock:
            holder = self.id_of(name)
            free = lower not in self._claimed and (holder is None or holder == replaces)
            if free:
                self._claimed.add(lower)
        try:
            yield free
        finally:
            if free:
                with self._lock:
                    self._claimed.discard(lower)

    # --- for epochs, and upkeep ---------------------------------------------------------------------------------------

    def ship(self, streams: Iterable[int]) -> int:
        """Write what workers lack of the indexes of these streams, durably; the version that they then can reach.

        Costs nothing where nothing changed.
        """
        with self._lock:
            self._indexes.ship(streams, self._seq)
            return self._seq

    def maintain(self, needed: int) -> None:
        """Rewrite the log when mostly dead, checkpoint when the tail is long, remove shipped files nobody needs.

        Arguments:
            needed: the register version of the last manifest.
        """
        with self._upkeep:
            dead = self._lines - self._rows.live
            if dead > max(DEAD, self._rows.live):
                self._compact()
            if self._seq - max(self._checkpointed, self._log.first) > max(TAIL, self._rows.live // 8) or (
                self._indexes.longest > shipping.LONGEST
            ):
                self._checkpoint()
            with self._lock:
                self._indexes.prune(needed)

    def _compact(self) -> None:
        kept: list[tuple[int, int]] = []
        held = False

        def keep() -> tuple[int, int, Iterable[bytes]]:
            nonlocal held
            self._lock.acquire()  # until the new file is in place: offsets change with it
            held = True
            self._rows.keep_live()
            rows = self._rows.all
            kept.extend(zip(rows["offset"].tolist(), rows["length"].tolist(), strict=True))
            paused = [int(i) for i in rows["id"][rows["status"] == PAUSED]]
            self._lines = len(kept) + len(paused)
            lines = (as_added(self._log.read(offset, length)) for offset, length in kept)
            states = (other_line({"do": "status", "id": q, "status": "paused"}) for q in paused)
            return self._seq - self._lines, self._next_id, chain(lines, states)

        def swapped() -> None:
            lengths = self._rows.all["length"].astype(np.int64)
            self._rows.all["offset"] = self._log.start + np.concatenate([[0], np.cumsum(lengths)])[:-1]
            self._end = self._log.size

        try:
            self._log.rewrite(keep, swapped)
        finally:
            if held:
                self._lock.release()
        self._checkpoint()

    def checkpoint(self) -> None:
        """Write what makes the next opening quick. Losing it costs time only."""
        with self._upkeep:
            self._checkpoint()

    def _checkpoint(self) -> None:
        with self._lock:
            bases = self._indexes.bases(self._seq)
            versions = {b.stream: b.version for b in bases}
            made = Checkpoint(
                self._log.generation, self._end, self._seq, self._next_id, self._lines, versions,
                self._indexes.users(), self._rows.to_table(),
            )  # fmt: skip
        self._indexes.write(bases)
        write_checkpoint(self._folder, made)
        with self._lock:
            self._indexes.written(bases)
            self._checkpointed = made.version

    def close(self) -> None:
        """Close the log, with a checkpoint when that saves time at the next opening."""
        if self._seq - max(self._checkpointed, self._log.first) > 256:
            with suppress(OSError):  # it only saves time
                self.checkpoint()
        self._log.close()


__all__ = ["NewSelection", "Register", "RegisterStatus", "Registered", "check_name"]
