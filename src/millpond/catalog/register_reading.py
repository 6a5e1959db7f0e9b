"""Reading the register: definitions by id and name, lists, counts."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.catalog.indexes import Indexes
from millpond.catalog.register_lines import Registered, name_of, registered
from millpond.catalog.register_log import RegisterLog
from millpond.catalog.register_rows import DROPPED, LIVE, OPTIONS, PAUSED, STATUS, Rows
from millpond.support.damaged_files import reading
from millpond.support.errors import QueryError
from millpond.synopses.predicate_index.boxes import BoxTable


class Reading:
    """What can be asked of a register; `Register` changes it."""

    _lock: threading.RLock
    _rows: Rows
    _by_name: dict[str, int]
    _cache: OrderedDict[int, Registered]
    _most: int
    _log: RegisterLog
    _indexes: Indexes
    _seq: int

    def __len__(self) -> int:
        return self._rows.live

    @property
    def version(self) -> int:
        """How many events there have been."""
        return self._seq

    def name(self, query: int) -> str:
        """What a query is called, from memory; '#<id>' for one without a name or unknown."""
        at = self._rows.slot(query)
        return name_of(query, None if at is None else self._rows.names[at])

    def _slot(self, query: int) -> int:
        at = self._rows.slot(query)
        if at is None:
            raise QueryError(f"there is no query #{query}")
        return at

    def get(self, query: int) -> Registered:
        """The query of an id.

        Raises: QueryError when there is none (any more).
        """
        with self._lock:
            if (found := self._cache.get(query)) is not None:
                self._cache.move_to_end(query)
                return found
            row = self._rows.all[self._slot(query)].copy()
            status: Literal["live", "paused"] = "paused" if row["status"] == PAUSED else "live"
            event = self._log.event(int(row["offset"]), int(row["length"]))
        with reading(self._log.path):
            found = registered(event, status)
        with self._lock:
            at = self._rows.slot(query)
            now = None if at is None else self._rows.all[at]
            if now is not None and STATUS[now["status"]] == status and now["offset"] == row["offset"]:
                self._cache[query] = found
                while len(self._cache) > self._most:
                    self._cache.popitem(last=False)
        return found

    def id_of(self, name: str) -> int | None:
        """The id of the query that is called so ('#<id>' too, for one without a name), or None."""
        with self._lock:
            found = self._by_name.get(name.lower())
            if found is None and name.startswith("#") and name[1:].isascii() and name[1:].isdigit():
                at = self._rows.slot(int(name[1:])) if len(name) < 20 else None
                found = int(name[1:]) if at is not None and self._rows.names[at] is None else None
            return found

    def by_name(self, name: str) -> Registered | None:
        """The query that is called so, or None."""
        found = self.id_of(name)
        try:
            return None if found is None else self.get(found)
        except QueryError:  # dropped meanwhile
            return None

    def __contains__(self, query: int) -> bool:
        with self._lock:
            return self._rows.slot(query) is not None

    def names(self) -> list[str]:
        """The names that have been given, for a search of near ones."""
        with self._lock:
            return [n for n in self._rows.names if n is not None]

    def count(self, owner: str | None = None) -> int:
        """How many queries there are, or an owner has."""
        with self._lock:
            return self._rows.live if owner is None else self._rows.count(owner)

    def on_stream(self, stream: int) -> npt.NDArray[np.int64]:
        """Ids of the queries that read a stream, ascending."""
        with self._lock:
            found: npt.NDArray[np.int64] = self._rows.all["id"][self._rows.on_stream(stream)]
            return found

    def reading(self, stream: int, column: str) -> list[int]:
        """Ids of the queries on a stream that read a column of it, ascending."""
        found = []
        for query in self.on_stream(stream).tolist():
            with contextlib.suppress(QueryError):  # dropped meanwhile
                registered = self.get(query)
                sides = [n for n, each in enumerate(registered.streams) if each == stream]
                if any(column in registered.selection.reads(n) for n in sides):
                    found.append(query)
        return found

    def written(self, query: int) -> dict[str, Any]:
        """The line of a query as it stands in the log: quicker than `get`, which makes a definition of it.

        Raises: QueryError when there is none (any more).
        """
        with self._lock:
            row = self._rows.all[self._slot(query)]
            return self._log.event(int(row["offset"]), int(row["length"]))

    def table(self, stream: int) -> BoxTable:
        """The predicate index of a stream: its live queries that keep anything ready, by id.

        A join is in the index of each of its streams, but for a stream joined with itself.
        """
        return self._indexes.table(stream)

    def listing(self, owner: str | None = None, after: int = 0, most: int | None = None) -> pa.Table:
        """Queries by ascending id: id, name, owner, status, stream, second, others (ids), materialize, epoch, invoked,
        calls.

        Arguments:
            owner: only this one's. after: only larger ids. most: at most so many.
        """
        with self._lock:
            rows = self._rows.all
            chosen = (rows["status"] != DROPPED) & (rows["id"] > after)
            if owner is not None:
                chosen &= rows["owner"] == (self._rows.owner_number(owner) if self._rows.count(owner) else -1)
            slots = np.flatnonzero(chosen)[:most]
            rows = rows[slots]
            names = [name_of(i, self._rows.names[s]) for i, s in zip(rows["id"].tolist(), slots, strict=True)]
            owners = pa.array(self._rows.owners, pa.string())
            others = self._rows.others_of(rows["id"])
        plain = {n: pa.array(np.ascontiguousarray(rows[n])) for n in ("epoch", "stream", "second", "invoked", "calls")}
        return pa.table(
            {
                "id": pa.array(np.ascontiguousarray(rows["id"])),
                "name": pa.array(names, pa.string()),
                "owner": owners.take(pa.array(np.ascontiguousarray(rows["owner"]))),
                "status": pa.array(STATUS).take(pa.array(np.ascontiguousarray(rows["status"]))),
                "materialize": pa.array(OPTIONS).take(pa.array(np.ascontiguousarray(rows["option"]))),
                "others": others,
                **plain,
            }
        )

    def invoked(self, query: int, now: int) -> None:
        """Count an invocation at `now` (microseconds); for deciding what is kept ready, so not durable."""
        with self._lock:
            at = self._rows.slot(query)
            if at is not None:
                row = self._rows.all[at]
                row["invoked"] = now
                row["calls"] += 1

    def usage(self, query: int) -> tuple[int, int]:
        """When a query was last invoked (microseconds; 0: never since opening), and how often."""
        with self._lock:
            row = self._rows.all[self._slot(query)]
            return int(row["invoked"]), int(row["calls"])

    def statistics(self) -> dict[str, int]:
        """Counts and memory, cheap."""
        with self._lock:
            status = self._rows.all["status"]
            return {
                "live": int(np.count_nonzero(status == LIVE)),
                "paused": int(np.count_nonzero(status == PAUSED)),
                "owners": sum(1 for n in self._rows.counts if n),
                "version": self._seq,
                "log_bytes": self._log.size,
                "index_bytes": self._indexes.nbytes,
            }
