"""What `WITH (…)` behind CREATE TABLE and `SET (…)` behind ALTER TABLE says, as it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from millpond.types.options.declared import option
from millpond.types.options.stream_terms import FileTerms
from millpond.types.options.stream_values import Module, Reload
from millpond.types.options.value_kinds import Choice, Text

_COLUMN = Text("a column of the table")


@dataclass(frozen=True)
class TableTerms(FileTerms):
    """Options of CREATE TABLE."""

    source: Literal["files", "database"] | None = option(
        None, Choice(("files", "database")), "where rows come from; by default a database when a uri is given"
    )
    uri: str = option(
        "",
        Text("uri='postgresql://user@host/database'"),
        "how a database is reached, as its driver takes it",
        live=True,
    )
    driver: str = option("", Module(), "the Python module that reaches it; by default as the uri begins")
    query: str = option("", Text("query='SELECT …'"), "what the database is asked")
    table: str = option("", Text("table='schema.name'"), "in place of it, a table of the database")
    reload: int | Literal["on change", "never"] | None = option(
        None,
        Reload(),
        "when it is read again; by default files when they change, a database every 10 minutes",
        live=True,
    )
    valid_from: str = option("", _COLUMN, "a column that says from when on a row holds")
    valid_to: str = option("", _COLUMN, "a column that says until when a row holds")
