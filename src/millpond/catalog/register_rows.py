"""What the register keeps in memory of every query: a few numbers, a name, an owner. Definitions stay on disk."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

LIVE, PAUSED, DROPPED = 0, 1, 2
STATUS = ("live", "paused", "dropped")
OPTIONS = ("auto", "partial", "complete", "none")

#: Of its streams the first two; -1: none. invoked: microseconds since 1970, 0: never.
ROW = np.dtype(
    [
        ("id", np.int64),
        ("offset", np.int64),
        ("epoch", np.int64),
        ("invoked", np.int64),
        ("calls", np.int64),
        ("length", np.int32),
        ("owner", np.int32),
        ("stream", np.int32),
        ("second", np.int32),
        ("status", np.int8),
        ("option", np.int8),
    ]
)


class Rows:
    """Queries in ascending order of their ids. Not safe for threads: the register holds its lock around it."""

    def __init__(self) -> None:
        self._data: npt.NDArray[np.void] = np.zeros(256, ROW)
        self.size = 0
        self.names: list[str | None] = []
        self.owners: list[str] = []
        self.counts: list[int] = []
        self.others: dict[int, tuple[int, ...]] = {}  # by query, its streams behind the second (unions)
        self._owner_numbers: dict[str, int] = {}
        self.live = 0

    @property
    def all(self) -> npt.NDArray[np.void]:
        """Every row, dropped ones included."""
        return self._data[: self.size]

    def slot(self, query: int) -> int | None:
        """Where a query stands; None when there is none of that id, or it is dropped."""
        at = int(np.searchsorted(self._data["id"][: self.size], query))
        if at < self.size and self._data["id"][at] == query and self._data["status"][at] != DROPPED:
            return at
        return None

    def append(
        self,
        query: int,
        offset: int,
        length: int,
        name: str | None,
        owner: str,
        streams: tuple[int, ...],
        epoch: int,
        option: str,
    ) -> None:
        """A new query, live."""
        if self.size == len(self._data):
            data = np.zeros(self.size * 3 // 2, ROW)
            data[: self.size] = self._data
            self._data = data
        number = self.owner_number(owner)
        second = streams[1] if len(streams) > 1 else -1
        if len(streams) > 2:
            self.others[query] = streams[2:]
        self._data[self.size] = (
            query, offset, epoch, 0, 0, length, number, streams[0], second, LIVE, OPTIONS.index(option),
        )  # fmt: skip
        self.size += 1
        self.names.append(name)
        self.counts[number] += 1
        self.live += 1

    def owner_number(self, owner: str) -> int:
        """The number of an owner."""
        number = self._owner_numbers.get(owner)
        if number is None:
            number = self._owner_numbers[owner] = len(self.owners)
            self.owners.append(owner)
            self.counts.append(0)
        return number

    def count(self, owner: str) -> int:
        """How many queries an owner has."""
        number = self._owner_numbers.get(owner)
        return 0 if number is None else self.counts[number]

    def drop(self, at: int) -> None:
        """Mark the query in a slot as dropped."""
        row = self._data[at]
        row["status"] = DROPPED
        self.others.pop(int(row["id"]), None)
        self.counts[row["owner"]] -= 1
        self.names[at] = None
        self.live -= 1

    def streams_of(self, at: int) -> tuple[int, ...]:
        """The streams that the query in a slot reads."""
        row = self._data[at]
        first = (int(row["stream"]),) if row["second"] < 0 else (int(row["stream"]), int(row["second"]))
        return first + self.others.get(int(row["id"]), ())

    @property
    def streams(self) -> set[int]:
        """The streams that any live query reads."""
        rows = self.all[self.all["status"] != DROPPED]
        used = set(np.unique(rows["stream"]).tolist()) | set(np.unique(rows["second"]).tolist())
        return used.union(*self.others.values()) - {-1}

    def on_stream(self, stream: int) -> npt.NDArray[np.int64]:
        """Slots of the queries that read a stream."""
        rows = self.all
        reads = (rows["stream"] == stream) | (rows["second"] == stream)
        if further := [query for query, streams in self.others.items() if stream in streams]:
            reads |= np.isin(rows["id"], further)
        return np.flatnonzero(reads & (rows["status"] != DROPPED))

    def keep_live(self) -> None:
        """Forget dropped queries."""
        slots = np.flatnonzero(self.all["status"] != DROPPED)
        self.names = [self.names[i] for i in slots]
        self._data = np.concatenate([self.all[slots], np.zeros(256, ROW)])
        self.size = len(slots)

    def to_table(self) -> pa.Table:
        """The live queries as an Arrow table."""
        slots = np.flatnonzero(self.all["status"] != DROPPED)
        rows = self.all[slots]
        columns = {name: pa.array(np.ascontiguousarray(rows[name])) for name in ROW.names or ()}
        columns["name"] = pa.array([self.names[i] for i in slots], pa.string())
        columns["owner"] = pa.array(self.owners, pa.string()).take(columns["owner"])
        if self.others:
            columns["others"] = self.others_of(rows["id"])
        return pa.table(columns)

    def others_of(self, ids: npt.NDArray[np.int64]) -> pa.Array:
        """Of each query its streams behind the second; NULL for most."""
        return pa.array([self.others.get(query) for query in ids.tolist()], pa.list_(pa.int64()))

    @staticmethod
    def from_table(table: pa.Table) -> Rows:
        """The rows that `to_table` wrote."""
        rows = Rows()
        data = np.zeros(table.num_rows + 256, ROW)
        for name in ROW.names or ():
            if name != "owner":
                data[name][: table.num_rows] = table[name].to_numpy()
        owners = table["owner"].combine_chunks().dictionary_encode()
        if isinstance(owners, pa.ChunkedArray):
            owners = owners.combine_chunks()
        for owner in owners.dictionary.to_pylist():
            rows.owner_number(owner)
        if table.num_rows:
            data["owner"][: table.num_rows] = owners.indices.to_numpy()
            rows.counts = np.bincount(data["owner"][: table.num_rows], minlength=len(rows.owners)).tolist()
        if "others" in table.column_names:
            pairs = zip(table["id"].to_pylist(), table["others"].to_pylist(), strict=True)
            rows.others = {query: tuple(streams) for query, streams in pairs if streams is not None}
        rows._data, rows.size, rows.live = data, table.num_rows, table.num_rows
        rows.names = table["name"].to_pylist()
        return rows
