"""`WITH (…)` behind CREATE TABLE and `SET (…)` behind ALTER TABLE: files or a database, and when they are read anew."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from millpond.language.inference.column_types import TIMES
from millpond.language.syntax.source_text import nearest
from millpond.language.with_options.option_reader import OptionReader
from millpond.language.with_options.stream_options import file_options
from millpond.support.sql import quote
from millpond.types import Column, TableDefinition

_FILES = ("path", "format", "header", "delimiter", "null", "missing")
_DATABASE = ("uri", "driver", "query", "table")
_VALIDITY = ("valid_from", "valid_to")
#: What reaches a database by its URI, where nothing else is said.
DRIVERS = {"postgresql": "adbc_driver_postgresql.dbapi", "postgres": "adbc_driver_postgresql.dbapi"}

#: How often a database is asked, where nothing else is said (microseconds).
RELOAD = 600_000_000

#: What a database cannot do, and what can be asked of it.
NO_SIGNS, SPANS = "a database does not tell when its rows change", "reload='10 minutes' or 'never'"

#: What may be seen of a list of settings for a connection.
_SHOWN = ("host", "hostaddr", "server", "port", "dbname", "database")

Reload = int | Literal["on change", "never"]


def table_of(name: str, columns: tuple[Column, ...], reader: OptionReader) -> tuple[TableDefinition, str | None]:
    """What CREATE TABLE declares, and how a database is reached (None: it reads files).

    Raises: StatementError on unknown, ill-typed or conflicting options.
    """
    source = reader.value("source") or ("database" if "uri" in reader else "files")
    for other in _DATABASE if source == "files" else _FILES:
        reader.conflict(other, f"is not for source='{source}'")
    validity: dict[str, Any] = {option: _time_column(reader, option, columns) for option in _VALIDITY}
    if validity["valid_to"] is not None and validity["valid_from"] is None:
        raise reader.fault("until when a row holds needs to be told with from when", reader.place_of("valid_to"),
                           "valid_from='<column>' beside it")  # fmt: skip
    reload = _reload(reader, source)
    if source == "files":
        default: Reload = "on change"
        return TableDefinition(
            name, columns, **file_options(reader), reload=default if reload is None else reload, **validity
        ), None
    uri: str = reader.value("uri")
    if not uri:
        raise reader.fault("a database needs a uri", reader.place, "uri='postgresql://user@host/database'")
    scheme = uri.partition("://")[0].lower() if "://" in uri else ""
    driver = reader.value("driver") or DRIVERS.get(scheme, "")
    if not driver:
        raise reader.fault(
            "which module reaches this database?", reader.place_of("uri"),
            "driver='<module>': one with connect() as DB-API 2.0 has it, such as 'sqlite3'",
        )  # fmt: skip
    return TableDefinition(
        name, columns, shown_place(uri), None, driver=driver, query=_query(reader, columns),
        reload=RELOAD if reload is None else reload, **validity,
    ), uri  # fmt: skip


def altered_table(reader: OptionReader) -> tuple[dict[str, Any], str | None]:
    """The fields of `TableDefinition` that ALTER TABLE sets, and a new URI."""
    found: dict[str, Any] = {}
    if "reload" in reader:
        found["reload"] = _reload(reader, None)
    if "missing" in reader:
        found["missing"] = reader.value("missing")
    uri = reader.value("uri") or None
    if uri is not None:
        found["path"] = shown_place(uri)
    return found, uri


def shown_place(uri: str) -> str:
    """Where a database is, without what only its owner may know.

    >>> shown_place("postgresql://me:hidden@db:5432/x?sslkey=k"), shown_place("/data/a.sqlite")
    ('postgresql://db:5432/x', '/data/a.sqlite')
    >>> shown_place("host=db user=me password='my own' dbname=x")
    'host=db dbname=x'
    """
    if "://" not in uri:
        pairs = re.findall(r"(\w+)\s*=\s*('[^']*'|\S+)", uri)
        return " ".join(f"{name}={value}" for name, value in pairs if name.lower() in _SHOWN) if pairs else uri
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri.partition("://")[0] + "://…"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _reload(reader: OptionReader, source: str | None) -> Reload | None:
    """When a table is read anew; None where it is not said. source None: only the execution knows it."""
    reload: Reload | None = reader.value("reload")
    if reload == "on change" and source == "database":
        raise reader.fault(NO_SIGNS, reader.place_of("reload"), SPANS)
    return reload


def _time_column(reader: OptionReader, option: str, columns: Sequence[Column]) -> str | None:
    if option not in reader:
        return None
    name: str = reader.value(option)
    column = next((c for c in columns if c.name.lower() == name.lower()), None)
    if column is None:
        known = [c.name for c in columns]
        raise reader.fault(f"there is no column '{name}'", reader.place_of(option), "a column of the table",
                           nearest(name, known))  # fmt: skip
    if column.type not in (*TIMES, "DATE"):
        raise reader.fault(
            f"column {column.name} is {column.type}, which is no time", reader.place_of(option),
            "a column of type TIMESTAMP or DATE",
        )  # fmt: skip
    return column.name


def _query(reader: OptionReader, columns: Sequence[Column]) -> str:
    """The SQL that the database is asked: as it is written, or the columns of one of its tables."""
    if ("query" in reader) == ("table" in reader):
        what = "a query and a table contradict each other" if "query" in reader else "what is the database asked?"
        place = reader.place_of("table") if "table" in reader else reader.place
        raise reader.fault(what, place, "query='SELECT …', or table='schema.name'")
    if "query" in reader:
        return str(reader.value("query"))
    table = ".".join(quote(part) for part in reader.value("table").split("."))
    return f"SELECT {', '.join(quote(c.name) for c in columns)} FROM {table}"
