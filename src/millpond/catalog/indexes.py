"""The predicate indexes of all streams, what of them workers have, and which factors can fail on a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from millpond.catalog import shipping
from millpond.catalog.register_lines import sides_of
from millpond.synopses.predicate_index.boxes import BoxTable

Boxes = shipping.Boxes


@dataclass
class _Stream:
    """One stream's index.

    shipped: the version up to which workers can bring themselves; None: there are no files yet.
    base: version of the newest base. deltas: how many follow it.
    pending: what has changed since `shipped`: boxes by query, None for one that went.
    factors: expressions that can fail on a row, with the queries that use them, oldest first.
    renamed: factors whose query to name has changed since `shipped`.
    """

    table: BoxTable = field(default_factory=BoxTable)
    shipped: int | None = None
    base: int | None = None
    deltas: int = 0
    pending: dict[int, Boxes | None] = field(default_factory=dict)
    factors: dict[str, dict[int, None]] = field(default_factory=dict)
    renamed: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Base:
    """A base that is to be written: made under the register's lock, written without it."""

    stream: int
    version: int
    tables: dict[str, pa.Table] | None
    factors: dict[str, str]


class Indexes:
    """Not safe for threads but for `table`: the register holds its lock around it."""

    def __init__(self, pond: str, name: Callable[[int], str]) -> None:
        self._pond, self._name = pond, name
        self._streams: dict[int, _Stream] = {}
        self._using: dict[tuple[int, int], tuple[str, ...]] = {}
        self._many: dict[int, dict[int, Boxes | None]] | None = None

    def table(self, stream: int) -> BoxTable:
        """The index of a stream."""
        found = self._streams.get(stream)
        return self._streams.setdefault(stream, _Stream()).table if found is None else found.table

    @property
    def nbytes(self) -> int:
        """Memory of all indexes, about."""
        return sum(s.table.nbytes for s in self._streams.values())

    @property
    def longest(self) -> int:
        """The most deltas that follow a base."""
        return max((s.deltas for s in self._streams.values()), default=0)

    @contextmanager
    def many(self) -> Iterator[None]:
        """While it is open, changes gather and then reach each index as one."""
        self._many = {}
        try:
            yield
        finally:
            gathered, self._many = self._many, None
            for stream, changes in gathered.items():
                self._change(stream, changes)

    def _change(self, stream: int, changes: dict[int, Boxes | None]) -> None:
        if self._many is not None:
            self._many.setdefault(stream, {}).update(changes)
            return
        table = self.table(stream)
        table.remove_many([q for q, boxes in changes.items() if boxes is None])
        table.add_many([(q, boxes) for q, boxes in changes.items() if boxes is not None])

    def add(self, query: int, streams: Sequence[int], boxes: Sequence[Boxes]) -> None:
        """Take in a query: its boxes side by side."""
        for number in sides_of(streams):
            stream = streams[number]
            self.table(stream)
            state = self._streams[stream]
            state.pending[query] = None if state.shipped is None else boxes[number]  # a base takes them from the table
            self._change(stream, {query: boxes[number]})
            fallible = {i.attribute: None for box in boxes[number] for i in box if not _is_column(i.attribute)}
            if fallible:
                self._using[stream, query] = tuple(fallible)
                for expression in fallible:
                    users = state.factors.setdefault(expression, {})
                    if not users:
                        state.renamed.add(expression)
                    users[query] = None

    def remove(self, query: int, streams: Sequence[int]) -> None:
        """Take a query out, if it is there."""
        for number in sides_of(streams):
            stream = streams[number]
            state = self._streams.get(stream)
            if state is None:
                continue
            state.pending[query] = None
            self._change(stream, {query: None})
            for expression in self._using.pop((stream, query), ()):
                users = state.factors[expression]
                if next(iter(users)) == query:
                    state.renamed.add(expression)
                del users[query]
                if not users:
                    del state.factors[expression]

    def drop_stream(self, stream: int) -> None:
        """Forget a stream."""
        self._streams.pop(stream, None)
        self._using = {key: value for key, value in self._using.items() if key[0] != stream}

    # --- files --------------------------------------------------------------------------------------------------------

    def ship(self, streams: Iterable[int], version: int) -> None:
        """Write what workers lack of these streams' indexes: all that has changed up to `version`."""
        for stream in streams:
            state = self._streams.get(stream)
            if state is None or not state.pending:
                continue
            folder = shipping.boxes_folder(self._pond, stream)
            if state.shipped is None:
                shipping.write_base(folder, version, state.table.to_tables(), self._named(state))
                state.base, state.deltas = version, 0
            else:
                renamed = {e: self._name_for(state, e) for e in sorted(state.renamed)}
                shipping.write_delta(folder, state.shipped, version, state.pending, renamed)
                state.deltas += 1
            state.shipped = version
            state.pending, state.renamed = {}, set()

    def _name_for(self, state: _Stream, expression: str) -> str | None:
        users = state.factors.get(expression)
        return self._name(next(iter(users))) if users else None

    def _named(self, state: _Stream) -> dict[str, str]:
        return {e: self._name(next(iter(users))) for e, users in state.factors.items()}

    def bases(self, version: int) -> list[Base]:
        """The bases of a checkpoint at `version`, and deltas up to them, so that nobody who follows must start anew."""
        self.ship(list(self._streams), version)
        found = []
        for stream, state in self._streams.items():
            if state.shipped is None:
                continue
            tables = None if state.base == state.shipped else state.table.to_tables()
            found.append(Base(stream, state.shipped, tables, self._named(state)))
        return found

    def write(self, bases: Iterable[Base]) -> None:
        """Write bases that are not written yet; needs no lock."""
        for base in bases:
            if base.tables is not None:
                folder = shipping.boxes_folder(self._pond, base.stream)
                shipping.write_base(folder, base.version, base.tables, base.factors)

    def written(self, bases: Iterable[Base]) -> None:
        """These bases are on disk."""
        for base in bases:
            state = self._streams.get(base.stream)
            if state is not None and base.tables is not None and base.version > (state.base or -1):
                state.base, state.deltas = base.version, 0

    def users(self) -> dict[str, dict[str, list[int]]]:
        """Fallible factors and the queries that use them, by stream; JSON-ready."""
        return {str(n): {e: list(u) for e, u in s.factors.items()} for n, s in self._streams.items() if s.factors}

    def load(self, bases: dict[int, int], users: dict[str, dict[str, list[int]]]) -> bool:
        """Read the indexes of a checkpoint; False, and nothing loaded, when a file is missing or damaged."""
        streams = {}
        for stream, version in bases.items():
            table = shipping.read_base(shipping.boxes_folder(self._pond, stream), version)
            if table is None:
                return False
            streams[stream] = _Stream(table, version, version)
        for name, factors in users.items():
            for expression, queries in factors.items():
                streams[int(name)].factors[expression] = dict.fromkeys(queries)
                for query in queries:
                    key = int(name), query
                    self._using[key] = (*self._using.get(key, ()), expression)
        self._streams = streams
        return True

    def prune(self, needed: int) -> None:
        """Remove files that no manifest from version `needed` on, and no checkpoint, can ask for."""
        shipping.remove_streams(self._pond, list(self._streams))
        for stream, state in list(self._streams.items()):
            if state.base is not None:
                shipping.prune(shipping.boxes_folder(self._pond, stream), needed, state.base)


def _is_column(attribute: str) -> bool:
    """Whether an attribute is just a quoted column, which cannot fail."""
    return attribute[:1] == '"' and attribute[-1:] == '"' and '"' not in attribute[1:-1].replace('""', "")
