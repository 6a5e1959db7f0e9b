"""The `derived` source: what epochs give for a stream that is derived from others (`CREATE STREAM x AS SELECT …`).

Tasks of epoch N write the rows as files named by epoch and task; when N is published, `poll` records them in the
stream's intake log, with the progress that is reached with them, and a later epoch reads them like any other item. A
file that a killed epoch left is not looked at before the epoch has been repeated, and then holds the same bytes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

from millpond.progress import NEVER
from millpond.sources.formats.parquet import found_in, match, needed_columns
from millpond.sources.formats.shape import Read, whole
from millpond.sources.intake_log import IntakeLog, Item
from millpond.support.sql import quote
from millpond.synopses.enums import query_ordered
from millpond.tables import read_json, remove_file, write_durably, write_json
from millpond.tables.stored_files import read_arrow, write_arrow
from millpond.types import StreamDefinition

_FILE: Final = re.compile(r"e(\d{12})-(\d{5})-(\d+)\.arrow")
_HISTORY: Final = "history.json"


@dataclass(frozen=True)
class Reached:
    """How far the source of a derived stream is: the last epoch that counts, and the progress of its answers.

    groups: bounds of groups that are further, by the text of their values.
    """

    epoch: int
    bound: int
    groups: Mapping[str, int] = field(default_factory=dict)


def derived_folder(pond: str, stream: StreamDefinition) -> str:
    """Where tasks put the rows of a derived stream."""
    return os.path.join(pond, "intake", stream.folder, "derived")


def file_name(epoch: int, task: int, rows: int) -> str:
    """The name of the file that a task of an epoch writes.

    >>> file_name(12, 3, 40)
    'e000000000012-00003-40.arrow'
    """
    return f"e{epoch:012d}-{task:05d}-{rows}.arrow"


def write_part(folder: str, epoch: int, task: int, rows: pa.Table) -> str | None:
    """Write the rows that a task of an epoch gives, durably; the file's name, None when there are no rows."""
    if not rows.num_rows:
        return None
    os.makedirs(folder, exist_ok=True)
    name = file_name(epoch, task, rows.num_rows)
    write_durably(
        os.path.join(folder, name), lambda file: write_arrow(file, rows.unify_dictionaries().combine_chunks())
    )
    return name


def write_history(folder: str, reached: Reached, files: Sequence[str]) -> None:
    """Record that the rows from before the stream's first epoch are there: `files` in order, as far as is `reached`."""
    os.makedirs(folder, exist_ok=True)
    known = {"epoch": reached.epoch, "bound": reached.bound, "groups": dict(reached.groups)}
    write_json(os.path.join(folder, _HISTORY), {**known, "files": list(files)})


class Parts:
    """Files that epochs wrote into a folder, and the items of an intake log that are made of them.

    Arguments:
        log: what is in there is known. folder: where the files are put.

    Attributes:
        epoch: up to which the log knows what there is; -1: it is empty.
    """

    def __init__(self, log: IntakeLog, folder: str) -> None:
        self.log, self.folder = log, folder
        self.epoch = max((i.epoch for i in log.items() if i.epoch is not None), default=-1)
        there = set(self.files())
        kept = [i for i in log.items() if there.intersection(i.parts)]
        self._released = min((i.ordinal for i in kept), default=log.length)
        for name in there.difference(p for i in kept for p in i.parts):
            if self.log.length and epoch_of(name) <= self.epoch:  # left by a job that was killed and repeated
                remove_file(os.path.join(folder, name))

    def files(self) -> list[str]:
        """The names of the files that are there."""
        try:
            return [n for n in os.listdir(self.folder) if _FILE.fullmatch(n)]
        except FileNotFoundError:
            return []

    def release(self, end: int) -> None:
        """Delete the files of items before ordinal `end`, whose rows are committed elsewhere."""
        for item in self.log.items(self._released, end):
            for part in item.parts:
                remove_file(os.path.join(self.folder, part))
        self._released = max(self._released, min(end, self.log.length))


class DerivedSource(Parts):
    """What a derived stream has to take in; lives in the driver. Not thread-safe: the caller holds the pond's lock.

    Arguments:
        definition: the stream. log: its intake log: what is in there is known.
        folder: where tasks put its rows.
        reached: how far the source is published; None: it has not begun.
        needed: steps (announced, reached) of bounds, for all rows or a group -> whether progress without rows is of use
            to anybody; see `engine.granularity`.

    Attributes:
        handed_on, withheld: announcements without rows that were recorded, and those that wait or were overtaken, since
            the pond was opened.
        changed: nothing ever changes after it was taken; here because files have it.
    """

    changed: tuple[str, ...] = ()

    def __init__(
        self,
        definition: StreamDefinition,
        log: IntakeLog,
        folder: str,
        reached: Callable[[], Reached | None],
        needed: Callable[[Sequence[tuple[int, int]]], bool] = lambda steps: True,
    ) -> None:
        super().__init__(log, folder)
        assert definition.derived is not None
        self.derivation, self._reached, self._needed = definition.derived, reached, needed
        self.handed_on, self.withheld = 0, 0
        self._bound = NEVER
        self._groups: dict[str, int] = {}
        self._announced(log.items())

    @property
    def waits(self) -> bool:
        """Whether the rows from before its first epoch have still to be made."""
        history = os.path.join(self.folder, _HISTORY)
        return self.derivation.has_past and not self.log.length and not os.path.exists(history)

    def poll(self, clock_us: int, settle: bool = True) -> list[Item]:
        """Record what the epochs published since the last look have given; the items, with their ordinals.

        Raises: PondError when the log cannot be written; nothing was taken.
        """
        items: list[Item] = []
        if self.derivation.has_past and not self.log.length:
            if self.waits:
                return []
            history = read_json(os.path.join(self.folder, _HISTORY))
            past = Reached(history["epoch"], history["bound"], history.get("groups", {}))
            items = self._items(history["files"], past, past.groups, clock_us)
            self.epoch = past.epoch
            self._announced(items)
        reached = self._reached()
        if reached is not None:
            items += self._given(reached, clock_us)
            self.epoch = max(self.epoch, reached.epoch)
        taken = self.log.append(items)
        self._announced(taken)
        return taken

    def _announced(self, items: Iterable[Item]) -> None:
        """Note what items announce."""
        for item in items:
            self._bound = max(self._bound, NEVER if item.bound is None else item.bound)
            self._groups |= item.groups
        self._groups = {group: bound for group, bound in self._groups.items() if bound > self._bound}

    def _given(self, reached: Reached, clock: int) -> list[Item]:
        """The items of what the epochs since the last look have given."""
        bound = max(self._bound, reached.bound)
        known = {group: max(self._bound, self._groups.get(group, NEVER)) for group in sorted(reached.groups)}
        groups = {group: reached.groups[group] for group in known if reached.groups[group] > max(known[group], bound)}
        steps = [(self._bound, bound)] if bound > self._bound else []
        steps += [(known[group], further) for group, further in groups.items()]
        new = reached.epoch > self.epoch
        files = sorted(n for n in self.files() if self.epoch < epoch_of(n) <= reached.epoch) if new or steps else []
        if files or (steps and self._needed(steps)):
            self.handed_on += not files
            return self._items(files, reached, groups, clock)
        self.withheld += bool(steps) and new
        return []

    def _items(self, files: Sequence[str], reached: Reached, further: Mapping[str, int], clock: int) -> list[Item]:
        """The items of some files: answers make one item, since their order is that of all of them; rows one each."""
        each = [tuple(files)] if self.derivation.as_one or not files else [(f,) for f in files]
        items = []
        for number, parts in enumerate(each):
            path = os.path.join(self.folder, parts[0] if parts else file_name(reached.epoch, 0, 0))
            size = sum(os.path.getsize(os.path.join(self.folder, f)) for f in parts)
            rows = sum(rows_of(f) for f in parts)
            last = number == len(each) - 1
            items.append(
                Item(0, "derived", path, "derived", size, 0, "", rows, "", clock, epoch=reached.epoch,
                     bound=reached.bound if last else None, parts=parts, groups=dict(further) if last else {})
            )  # fmt: skip
        return items


def epoch_of(name: str) -> int:
    """The epoch in the name of a file."""
    return int(name[1:13])


def rows_of(name: str) -> int:
    """How many rows a file has, by its name."""
    found = _FILE.fullmatch(name)
    assert found is not None
    return int(found[3])


def read(
    item: Item, definition: StreamDefinition, columns: Sequence[str] | None, db: duckdb.DuckDBPyConnection
) -> Read:
    """See `formats.read.read`. Answers come in order of event time, and of their values where that is equal.

    Raises: PondError when a file is gone, or damaged.
    """
    folder = os.path.dirname(item.path)
    if not item.parts:
        return whole(definition, columns)
    tables = [read_arrow(os.path.join(folder, part)) for part in item.parts]
    table = pa.concat_tables(tables, promote_options="permissive")
    if definition.derived is not None and definition.derived.as_one:
        table = _sorted(table, [definition.options.time, *(c.name for c in definition.columns)], db)
    names = match(table.schema.names, definition)
    needed = needed_columns(table.schema, names, definition, columns)
    return found_in(table, len(table), needed, table.schema.names, item, definition, columns, db)


def _sorted(table: pa.Table, by: Iterable[str], db: duckdb.DuckDBPyConnection) -> pa.Table:
    numbered = table.append_column("__n", pa.array(np.arange(table.num_rows)))
    terms = ", ".join(quote(name) for name in dict.fromkeys(by))
    order = query_ordered(db, f"SELECT __n FROM __rows ORDER BY {terms}", __rows=numbered)
    return table.take(order["__n"])
