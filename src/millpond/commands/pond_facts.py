"""What a statement is planned from: the catalog and the epochs as they are at one moment, as values.

`Facts.after` is the moment after a plan was carried out, as far as it can be known before: folding plans over facts is
a dry run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from millpond.catalog import Catalog, Registered
from millpond.catalog.events import apply
from millpond.manifests.records import Published
from millpond.types import FileTable
from millpond.types.options import Settings


@dataclass(frozen=True)
class ArchiveFacts:
    """What lies in a stream's archive: rows, and the event times that they are between (None: there are none).

    removed: rows before this event time are gone; None: none are.
    """

    rows: int = 0
    low: int | None = None
    high: int | None = None
    removed: int | None = None


class Sight(Protocol):
    """What is too much to be carried along: asked for what a statement names; nothing of it is changed by asking."""

    def row_query_id(self, name: str) -> int | None:
        """The id of the row query of that name, or None."""

    def row_query(self, number: int) -> Registered:
        """A row query. Raises: QueryError when there is none of that id."""

    def row_name(self, number: int) -> str:
        """What a row query is called."""

    def row_names(self) -> list[str]:
        """Names of row queries, the newest at the end."""

    def rows_on(self, stream: int) -> list[int]:
        """Ids of the row queries that read a stream."""

    def file(self, path: str) -> FileTable:
        """Files as a table. Raises: SourceError where there are none, or they cannot be read."""

    def stream_file(self, path: str) -> FileTable:
        """Files as a table with the types that a stream reads. Raises: SourceError, see `file`."""

    def has_history(self, stream: int) -> bool:
        """Whether epochs have taken anything of a stream, the running one included."""

    def archive(self, stream: int) -> ArchiveFacts:
        """What lies in the archive of a stream."""

    def absolute(self, path: str) -> str:
        """A path of a file with its folders, whatever folder the process is in later."""

    def users_of(self, reference: str) -> list[str]:
        """The names of what calls a registered function."""


@dataclass(frozen=True)
class Facts:
    """What a statement is planned from.

    published: the last publish record. next_epoch: the first epoch that knows what is planned. next_id: from it on ids
        are free. opened_with: the settings that the opening gave. opening: its own word. token: letters of nobody else.
    rows: row queries by name in small letters that plans have made, or, with None, dropped. gone: ids of others that
    they have dropped. files: whether who asks may reach files.
    """

    catalog: Catalog
    published: Published
    settings: Settings
    opened_with: Mapping[str, Any]
    next_epoch: int
    next_id: int
    opening: str
    token: str
    sight: Sight
    rows: Mapping[str, Registered | None] = field(default_factory=dict)
    gone: frozenset[int] = frozenset()
    files: bool = True

    def row_query_id(self, name: str) -> int | None:
        """The id of the row query of that name, or None."""
        if name.lower() in self.rows:
            found = self.rows[name.lower()]
            return None if found is None else found.id
        number = self.sight.row_query_id(name)
        return None if number in self.gone else number

    def row_query(self, name: str) -> Registered | None:
        """The row query of that name, or None."""
        if name.lower() in self.rows:
            return self.rows[name.lower()]
        number = self.row_query_id(name)
        return None if number is None else self.sight.row_query(number)

    def row_name(self, number: int) -> str:
        """What a row query is called."""
        return next((q.name for q in self.rows.values() if q is not None and q.id == number), "") or (
            self.sight.row_name(number)
        )

    def rows_on(self, stream: int) -> list[int]:
        """Ids of the row queries that read a stream."""
        made = [q.id for q in self.rows.values() if q is not None and stream in q.streams]
        dropped = {number for name, q in self.rows.items() if q is None for number in [self.sight.row_query_id(name)]}
        return [n for n in self.sight.rows_on(stream) if n not in self.gone and n not in dropped] + made

    def with_events(self, *events: Mapping[str, Any]) -> Facts:
        """The facts after events of the catalog."""
        catalog = self.catalog
        for event in events:
            catalog = apply(catalog, dict(event))
        return replace(self, catalog=catalog, next_id=max(self.next_id, catalog.next_id))

    def with_row_query(self, name: str, query: Registered | None) -> Facts:
        """The facts after a row query of a name has come, or with None gone."""
        return replace(self, rows={**self.rows, name.lower(): query})
