"""Registering row queries: from text, or a bound SELECT, to a place in the register."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from millpond.answers.row_queries.ready import ready_of
from millpond.catalog import NewSelection
from millpond.engine.control.reporting import SYSSTREAM
from millpond.engine.core import Core
from millpond.language import Binder, CreateQuery, bind_standing, parse
from millpond.support.errors import QueryError, Refusal, StatementError
from millpond.types import (
    FunctionDefinition,
    Query,
    QueryDefinition,
    QueryOptions,
    RowQuery,
    Staged,
    StreamDefinition,
    TableDefinition,
)
from millpond.types.options import options_of


def check_row_options(options: QueryOptions) -> None:
    """Raise Refusal for options that are not those of row queries."""
    for name, option in options_of(QueryOptions).items():
        if "rows" in option.of or getattr(options, name) == option.default:
            continue
        if "windows" not in option.of:
            raise Refusal(f"'{name}' is for {' and '.join(option.of)}, and this is a row query", name)
        if name.startswith("adapt"):
            others = "those over windows, and CQL"
            raise Refusal(f"'{name}' is for queries whose filters are evaluated in an order: {others}", name)
        raise Refusal(f"'{name}' is for window queries; a row query says BEGIN … END", name)


def only_invoked(name: str) -> str:
    """Why nothing can be read from the name of a row query."""
    return f"'{name}' is a row query: nothing can be selected from it; INVOKE {name} gives its answer"


class Names:
    """The names of a pond as the binder sees them: those of the catalog; row queries are no tables."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def lookup(self, name: str) -> StreamDefinition | TableDefinition | QueryDefinition | None:
        """What the catalog has of that name."""
        found = self._core.catalog.lookup(name)
        return None if isinstance(found, StreamDefinition) and found.is_inner else found

    def missing(self, name: str) -> str:
        """Why nothing can be read from a name that `lookup` does not know; '' where there is nothing to say."""
        if self._core.register.id_of(name) is not None:
            return only_invoked(name)
        if name.lower() == SYSSTREAM and self._core.catalog.lookup(name) is None:
            return f"nothing is reported into {SYSSTREAM} yet; ALTER SYSTEM SET statistics = on begins it"
        return ""

    def names(self) -> list[str]:
        """The names that something can be selected from."""
        return self._core.catalog.names()

    def reductions(self) -> list[str]:
        """The names of registered reduction functions."""
        return list(self._core.catalog.reductions)

    def window_kinds(self) -> dict[str, tuple[str, int]]:
        """References and lengths of registered kinds of windows, by name in small letters."""
        return {name: (kind.reference, kind.length) for name, kind in self._core.catalog.kinds.items()}

    def functions(self) -> dict[str, FunctionDefinition]:
        """Registered functions, by name in small letters."""
        return self._core.catalog.functions


class _Instead(Names):
    """The same names with other definitions of some streams."""

    def __init__(self, core: Core, streams: Sequence[StreamDefinition]) -> None:
        super().__init__(core)
        self._instead = {s.name.lower(): s for s in streams}

    def lookup(self, name: str) -> StreamDefinition | TableDefinition | QueryDefinition | None:
        return self._instead.get(name.lower()) or super().lookup(name)


class RowQueries:
    """Adds row queries to the register of an open pond."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.names = Names(core)
        self._binder = Binder(self.names)
        self._bound = threading.local()  # .columns: what `catalogs.alterations` was when this thread began to bind

    def bind(self, text: str) -> Query | Staged:
        """A SELECT as text, bound; quick for shapes that were seen before.

        Raises: StatementError, with the place in the text.
        """
        if getattr(self._bound, "columns", None) is None:
            self._bound.columns = self._core.catalogs.alterations
        return self._binder.bind(text)

    def forget(self) -> None:
        """Bind texts anew from now on: names of functions mean something else."""
        self._binder = Binder(self.names)

    def new(
        self,
        selection: RowQuery,
        text: str,
        name: str | None = None,
        owner: str = "",
        options: QueryOptions | None = None,
        replaces: int | None = None,
        previous: tuple[int, ...] = (),
        version: int = 1,
    ) -> NewSelection:
        """What the register is to take in.

        Raises: Refusal when an option is not one of row queries; QueryError when a stream is gone.
        """
        options = options or QueryOptions()
        check_row_options(options)
        catalog = self._core.catalog
        streams = []
        for side in selection.sides:
            stream = catalog.stream(side.stream)
            if stream is None:
                raise QueryError(f"the stream '{side.stream}' was dropped meanwhile")
            streams.append(stream.id)
        return NewSelection(
            selection,
            tuple(streams),
            text,
            name,
            owner,
            options,
            self._core.published.epoch,
            replaces,
            version,
            previous,
        )

    def add(self, queries: Sequence[NewSelection], limit: int | None = None) -> list[int]:
        """Register, durably, all or none; their ids. Many threads that come at once share one write.

        Raises: QueryError as `Register.add`.
        """
        bound, self._bound.columns = getattr(self._bound, "columns", None), None
        ids = self._core.register.add(queries, limit)
        # A column was altered between binding and now, or is being altered, without having seen these queries.
        if bound is not None and (bound % 2 or bound != self._core.catalogs.alterations):
            with self._core.lock:
                self._core.register.fit(fitted(self._core, ids))
        for number, query in zip(ids, queries, strict=True):
            if query.options.materialize == "complete":
                ready_of(self._core).keeper.declare(number, "complete")
        return ids


def fitted(core: Core, queries: Iterable[int], stream: StreamDefinition | None = None) -> dict[int, RowQuery]:
    """Registered row queries bound anew to the columns as they are, by id; `core.lock` must be held.

    Columns that were added since are not in what a query's `*` stands for.

    Arguments:
        stream: a definition that the catalog does not have yet.
    Raises:
        QueryError: one of them means nothing then, and which.
    """
    binders: dict[tuple[tuple[str, int], ...], Binder] = {}
    found = {}
    for number in queries:
        line = core.register.written(number)
        query = line["selection"]["query"]
        names = [output["name"] for output in query["select"]]
        read = {n: core.catalog.streams[n] for n in line["streams"]}
        if stream is not None and stream.id in read:
            read[stream.id] = stream
        fault: StatementError | None = None
        for columns in _candidates(query, read):
            binder = binders.get(columns)
            if binder is None:
                seen = [replace(s, columns=s.columns[:n]) for s, (_, n) in zip(read.values(), columns, strict=True)]
                binder = binders[columns] = Binder(_Instead(core, seen))
            try:
                bound = _bind(binder, line["text"])
            except StatementError as error:
                fault = fault or error
                continue
            if isinstance(bound, RowQuery) and [output.name for output in bound.query.select] == names:
                found[number] = bound
                break
        else:
            name = core.register.name(number)
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
