"""DuckDB as the judge of types: expressions are described, never run, on a connection that can reach nothing."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterable

import duckdb

from millpond.types import Column

_LOCK = threading.Lock()


@functools.cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "threads": "1",
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET lock_configuration = true")
    return connection


class Refused(Exception):
    """DuckDB refused the SQL; `reason` is one sentence of its message, `names` what it put in quotes."""

    def __init__(self, error: Exception) -> None:
        text = str(error)
        self.reason = clean(text)
        self.names: tuple[str, ...] = tuple(re.findall(r'"([^"]+)"', text.split("\n")[0]))
        found = re.search(r"Candidate (?:bindings|Entries):(.*)", text)
        self.candidates: tuple[str, ...] = tuple(re.findall(r'"([^"]+)"', found[1])) if found else ()
        super().__init__(self.reason)


def quote(name: str) -> str:
    """An identifier in double quotes.

    >>> quote('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def text_literal(value: str) -> str:
    """A text as a SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def empty_relation(columns: Iterable[Column]) -> str:
    """SQL of a derived table with these columns."""
    fields = ", ".join(f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in columns)
    return f"(SELECT {fields or '1'})"


@functools.lru_cache(maxsize=4096)
def describe(sql: str) -> tuple[Column, ...]:
    """Names and types of the columns that a SELECT gives; it is bound, not run.

    Raises:
        Refused: DuckDB does not accept it.

    >>> describe("SELECT 1 AS a")
    (Column(name='a', type='INTEGER'),)
    """
    with _LOCK:
        try:
            rows = _connection().execute(f"DESCRIBE {sql}").fetchall()
        except duckdb.Error as error:
            raise Refused(error) from None
        except (UnicodeError, ValueError, RuntimeError) as error:  # lone surrogates and the like
            raise Refused(error) from None
    return tuple(Column(str(row[0]), str(row[1])) for row in rows)


def clean(message: str) -> str:
    """One sentence of a DuckDB message: no candidates, no excerpt of generated SQL."""
    first = message.split("\n")[0].strip()
    first = re.sub(r"^[A-Z]\w*(?: \w+)* (?:Error|Exception): ", "", first)
    first = re.sub(r"^[A-Za-z ]*Error: ", "", first)
    first = first.replace(" You might need to add explicit type casts.", "").rstrip(".! ")
    first = re.sub(r"No function matches the given name and argument types '(.*)'", _no_function, first)
    first = first.replace("_LITERAL", "")
    return first[:1].lower() + first[1:] if first[:2] != first[:2].upper() else first


def _no_function(found: re.Match[str]) -> str:
    call = found[1].replace("_LITERAL", "")
    name, _, rest = call.partition("(")
    types = rest.removesuffix(")")
    kind = "operator" if not name.isidentifier() else "function"
    return f"{kind} {name} does not take ({types})"
