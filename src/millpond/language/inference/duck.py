"""DuckDB as the judge of types: expressions are described, never run, on a connection that can reach nothing."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence

import duckdb

from millpond.functions import display, install
from millpond.support.sql import quote
from millpond.types import Column, projected

_LOCK = threading.Lock()

#: Relations whose types are remembered, and how many expressions of each (longer ones are not).
_RELATIONS = 1024
_EXPRESSIONS = 4096
_LONGEST = 2000

#: How often a relation is asked before it becomes a table, which DuckDB binds faster than a subquery.
_OFTEN = 3


_functions = 0


def _connection() -> duckdb.DuckDBPyConnection:
    """The one connection, with every registered function; `_LOCK` must be held.

    It is asked for outside what turns DuckDB's refusals into the user's mistakes: that a function cannot be put into it
    is never one. DuckDB does that only when the rows of the last question have been fetched to their end.
    """
    global _functions
    connection = _plain_connection()
    _functions = install(connection, _functions)
    return connection


@functools.cache
def _plain_connection() -> duckdb.DuckDBPyConnection:
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


def empty_relation(columns: Iterable[Column]) -> str:
    """SQL of a derived table with these columns."""
    fields = ", ".join(projected("NULL", c.type, c.name) for c in columns)
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
        connection = _connection()
        try:
            rows = connection.execute(f"DESCRIBE {sql}").fetchall()
        except duckdb.Error as error:
            raise Refused(error) from None
        except (UnicodeError, ValueError, RuntimeError) as error:  # lone surrogates and the like
            raise Refused(error) from None
    return tuple(Column(str(row[0]), str(row[1])) for row in rows)


class TypedRelation:
    """Types of expressions over some columns, each asked of DuckDB once. Made by `typed_relation`."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self._columns = columns
        self._from = empty_relation(columns)
        self._known: dict[str, str] = {}
        self._asked = 0
        self._table = ""

    def types(self, expressions: Sequence[str]) -> list[str]:
        """The DuckDB type of every expression; those that are not known yet are asked in one question.

        Raises:
            Refused: DuckDB does not accept one of them.
        """
        known = self._known  # another thread may put a new one in its place, but takes nothing out of this one
        wanted = [e for e in dict.fromkeys(expressions) if e not in known]
        if not wanted:
            return [known[e] for e in expressions]
        found = dict(zip(wanted, self._ask(wanted), strict=True))
        types = [found[e] if e in found else known[e] for e in expressions]
        if len(known) + len(found) > _EXPRESSIONS:
            self._known = known = {}
        known.update((e, kind) for e, kind in found.items() if len(e) <= _LONGEST)
        return types

    def _ask(self, expressions: Sequence[str]) -> list[str]:
        fields = ", ".join(f"{e} AS x{n}" for n, e in enumerate(expressions))
        with _LOCK:
            self._asked += 1
            if self._asked == _OFTEN:
                self._keep()
            connection = _connection()
            try:
                # A relation of the client is bound when it is made, and never run.
                return [str(kind) for kind in connection.sql(f"SELECT {fields} FROM {self._from} AS t").types]
            except duckdb.Error as error:
                raise Refused(error) from None
            except (UnicodeError, ValueError, RuntimeError) as error:  # lone surrogates and the like
                raise Refused(error) from None

    def _keep(self) -> None:
        """Become an empty table; a relation that cannot be one stays a subquery."""
        fields = ", ".join(f"{quote(c.name)} {c.type}" for c in self._columns)
        name = f"relation_{id(self)}"
        connection = _connection()
        with contextlib.suppress(duckdb.Error, UnicodeError, ValueError, RuntimeError):
            connection.execute(f"CREATE TEMP TABLE {name} ({fields})")
            self._table = self._from = name

    def forget(self) -> None:
        """Drop the table; whoever still holds the relation asks by a subquery again."""
        with _LOCK:
            if self._table:
                _connection().execute(f"DROP TABLE {self._table}")
                self._table, self._from = "", empty_relation(self._columns)


_relations: OrderedDict[tuple[Column, ...], TypedRelation] = OrderedDict()
_RELATIONS_LOCK = threading.Lock()


def typed_relation(columns: Iterable[Column]) -> TypedRelation:
    """The relation with these columns, which remembers the types of expressions over it.

    >>> typed_relation([Column("a", "INTEGER")]).types(['"a" + 1', '"a" > 1'])
    ['INTEGER', 'BOOLEAN']
    """
    key = tuple(columns)
    with _RELATIONS_LOCK:
        if (found := _relations.get(key)) is not None:
            _relations.move_to_end(key)
            return found
        made = _relations[key] = TypedRelation(key)
        old = [_relations.popitem(last=False)[1] for _ in range(len(_relations) - _RELATIONS)]
    for each in old:
        each.forget()
    return made


def clean(message: str) -> str:
    """One sentence of a DuckDB message: no candidates, no excerpt of generated SQL."""
    first = display(message.split("\n")[0].strip())
    first = re.sub(r"^[A-Z]\w*(?: \w+)* (?:Error|Exception): ", "", first)
    first = re.sub(r"^[A-Za-z ]*Error: ", "", first)
    first = first.replace(" You might need to add explicit type casts.", "").rstrip(".! ")
    first = re.sub(
        r'^(?:Values list|Table) "(.+)" does not have a column named "(.+)"', r"there is no column '\2' in \1", first
    )
    first = re.sub(r"No function matches the given name and argument types '(.*)'", _no_function, first)
    first += _cast_first(message) if "does not take" in first and "VARCHAR" in first else ""
    first = first.replace("_LITERAL", "")
    return first[:1].lower() + first[1:] if first[:2] != first[:2].upper() else first


def _no_function(found: re.Match[str]) -> str:
    call = found[1].replace("_LITERAL", "")
    name, _, rest = call.partition("(")
    types = rest.removesuffix(")")
    kind = "operator" if not name.isidentifier() else "function"
    return f"{kind} {name} does not take ({types})"


def _cast_first(message: str) -> str:
    """What to do with a text that is given to a function of times."""
    candidates = re.findall(r"^\t(\w+)\((.*)\) -> ", message, re.MULTILINE)
    of_times = candidates and all(re.search("DATE|TIME|INTERVAL", kinds) for _, kinds in candidates)
    return "; a text has to be cast to a time: x::TIMESTAMP" if of_times else ""


def evaluate(sql: str) -> object:
    """The value of a constant expression; the caller has made sure that it is harmless.

    >>> evaluate("TRY_CAST('12' AS INTEGER)")
    12
    """
    with _LOCK:
        ((value,),) = _connection().execute(f"SELECT {sql}").fetchall()
    return value
