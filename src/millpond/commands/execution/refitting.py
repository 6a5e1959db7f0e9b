"""Row queries bound anew to columns that have been altered, each as it was meant when it was registered."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from millpond.catalog.catalogs import Catalogs
from millpond.commands.execution.sight import LiveNames
from millpond.commands.naming import Known, Names
from millpond.language import Binder, CreateQuery, bind_standing, parse
from millpond.support.errors import QueryError, StatementError
from millpond.tables import read_json, remove_file, write_json
from millpond.types import Query, QueryDefinition, RowQuery, Staged, StreamDefinition, TableDefinition


class _Instead(Names):
    """The same names with other definitions of some streams."""

    def __init__(self, known: Known, streams: Sequence[StreamDefinition]) -> None:
        super().__init__(known)
        self._instead = {s.name.lower(): s for s in streams}

    def lookup(self, name: str) -> StreamDefinition | TableDefinition | QueryDefinition | None:
        return self._instead.get(name.lower()) or super().lookup(name)


def fitted(catalogs: Catalogs, queries: Iterable[int], stream: StreamDefinition | None = None) -> dict[int, RowQuery]:
    """Registered row queries bound anew to the columns as they are, by id; `catalogs.lock` must be held.

    Columns that were added since are not in what a query's `*` stands for.

    Arguments:
        stream: a definition that the catalog does not have yet.
    Raises:
        QueryError: one of them means nothing then, and which.
    """
    binders: dict[tuple[tuple[str, int], ...], Binder] = {}
    found = {}
    for number in queries:
        line = catalogs.register.written(number)
        query = line["selection"]["query"]
        names = [output["name"] for output in query["select"]]
        read = {n: catalogs.catalog.streams[n] for n in line["streams"]}
        if stream is not None and stream.id in read:
            read[stream.id] = stream
        fault: StatementError | None = None
        for columns in _candidates(query, read):
            binder = binders.get(columns)
            if binder is None:
                seen = [replace(s, columns=s.columns[:n]) for s, (_, n) in zip(read.values(), columns, strict=True)]
                binder = binders[columns] = Binder(_Instead(LiveNames(catalogs), seen))
            try:
                bound = _bind(binder, line["text"])
            except StatementError as error:
                fault = fault or error
                continue
            if bound.in_register and [output.name for output in bound.query.select] == names:
                found[number] = bound
                break
        else:
            name = catalogs.register.name(number)
            reason = "its columns are called otherwise" if fault is None else fault.message
            raise QueryError(f"row query '{name}' cannot be bound to the columns then: {reason}")
    return found


def _candidates(query: dict[str, Any], read: dict[int, StreamDefinition]) -> Iterator[tuple[tuple[str, int], ...]]:
    """How many of each stream's columns there may have been at registration, likely numbers first.

    Columns are added behind the others, so that those of before are the first ones.

    Arguments: query, as its line has it.
    """
    # With the columns that are there without being declared.
    own = {feed["stream"]: len(feed["columns"]) for feed in query.get("feeds", ())}
    sizes = []
    for number, stream in read.items():
        declared = len(stream.columns)
        hidden = len(stream.all_columns) - declared
        known = [own[number] - hidden] if number in own else range(declared, 0, -1)
        sizes.append([(stream.name, n) for n in known])
    yield from itertools.product(*sizes)


def _bind(binder: Binder, text: str) -> Query | Staged:
    """A registered text: a SELECT, or the whole of CREATE QUERY."""
    if text[:6].upper() != "CREATE":
        return binder.bind(text)
    [statement] = parse(text)
    assert isinstance(statement, CreateQuery)
    return bind_standing(statement.select, binder.schema)


def note_pending(path: str, queries: Sequence[int]) -> None:
    """Note, durably, which row queries are about to be bound anew: a crash leaves it to the next opening.

    Args:
        path: the pond's folder.
    """
    write_json(_pending(path), {"queries": list(queries)})


def finish(path: str) -> None:
    """What was noted is done."""
    remove_file(_pending(path))


def finish_columns(path: str, catalogs: Catalogs) -> None:
    """At opening: bind the row queries anew that a crash has left with the columns of before."""
    try:
        queries = read_json(_pending(path))["queries"]
    except FileNotFoundError:
        return
    with catalogs.lock:
        catalogs.register.fit(fitted(catalogs, [q for q in queries if q in catalogs.register]))
    finish(path)


def _pending(path: str) -> str:
    return os.path.join(path, "catalog", "columns.json")
