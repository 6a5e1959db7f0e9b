"""Names: what the binder sees of them, what a statement means by one, and whether one is free."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from millpond.catalog import Catalog, Registered, Standing
from millpond.commands.pond_facts import Facts
from millpond.engine.control.reporting import SYSSTREAM
from millpond.support.errors import Refusal, SourceError
from millpond.support.file_names import is_file_name
from millpond.support.spelling import nearest
from millpond.types import FunctionDefinition, QueryDefinition, StreamDefinition, TableDefinition

#: What is said to who may not reach files.
NO_FILES = (
    "files are for who opens the pond: over HTTP nobody reaches them, unless the server was started with"
    " --set remote_files=true"
)

#: Names of row queries, the newest, that a misspelt one is compared with.
NEAR = 1000


class Known(Protocol):
    """Where names are from: `Facts`, or an open pond."""

    @property
    def catalog(self) -> Catalog:
        """The catalog."""

    def row_query_id(self, name: str) -> int | None:
        """The id of the row query of that name, or None."""


class NamesAndFiles:
    """Names as an ad hoc SELECT sees them: those of the catalog, and files by their paths."""

    def __init__(self, facts: Facts) -> None:
        self._facts, self._names = facts, Names(facts)

    def lookup(self, name: str) -> StreamDefinition | TableDefinition | QueryDefinition | None:
        """What the catalog has of that name, or else a file."""
        found = self._names.lookup(name)
        if found is not None or not is_file_name(name) or not self._facts.files:
            return found
        try:
            return self._facts.sight.file(name)
        except SourceError as error:
            raise Refusal(str(error), words=(name,)) from None

    def missing(self, name: str) -> str:
        """Why nothing can be read from a name that `lookup` does not know."""
        if is_file_name(name):
            return NO_FILES
        return self._names.missing(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._names, name)


class Names:
    """Names as the binder sees them: those of the catalog; row queries are no tables. See `language.Schema`."""

    def __init__(self, known: Known) -> None:
        self._known = known

    def lookup(self, name: str) -> StreamDefinition | TableDefinition | QueryDefinition | None:
        """What the catalog has of that name."""
        found = self._known.catalog.lookup(name)
        return None if isinstance(found, StreamDefinition) and found.is_inner else found

    def missing(self, name: str) -> str:
        """Why nothing can be read from a name that `lookup` does not know; '' where there is nothing to say."""
        if self._known.row_query_id(name) is not None:
            return f"'{name}' is a row query: nothing can be selected from it; INVOKE {name} gives its answer"
        if name.lower() == SYSSTREAM and self._known.catalog.lookup(name) is None:
            return f"nothing is reported into {SYSSTREAM} yet; ALTER SYSTEM SET statistics = on begins it"
        return ""

    def names(self) -> list[str]:
        """The names that something can be selected from."""
        return self._known.catalog.names()

    def by_time(self, stream: StreamDefinition, column: str) -> StreamDefinition | None:
        """The stream of all rows of another one whose event time is that column, the first that was made, or None."""
        return self._known.catalog.by_time(stream, column)

    def reductions(self) -> list[str]:
        """The names of registered reduction functions."""
        return list(self._known.catalog.reductions)

    def window_kinds(self) -> dict[str, tuple[str, int]]:
        """References and lengths of registered kinds of windows, by name in small letters."""
        return {name: (kind.reference, kind.length) for name, kind in self._known.catalog.kinds.items()}

    def functions(self) -> dict[str, FunctionDefinition]:
        """Registered functions, by name in small letters."""
        return self._known.catalog.functions


def stream_named(facts: Facts, name: str) -> StreamDefinition:
    """The declared stream of a name. Raises: Refusal."""
    stream = facts.catalog.stream(name)
    if stream is None or stream.is_inner:
        raise unknown(facts, "stream", name, [s.name for s in facts.catalog.shown_streams()])
    return stream


def table_named(facts: Facts, name: str) -> TableDefinition:
    """The table of a name. Raises: Refusal."""
    if isinstance(found := facts.catalog.lookup(name), TableDefinition):
        return found
    raise unknown(facts, "table", name, [t.name for t in facts.catalog.tables.values()])


def query_named(facts: Facts, name: str) -> Standing | Registered:
    """The standing query of a name, of any kind. Raises: Refusal."""
    standing = facts.catalog.query(name) or facts.row_query(name)
    if standing is None:
        known = [q.definition.name for q in facts.catalog.shown_queries()]
        raise unknown(facts, "query", name, [*known, *facts.sight.row_names()[-NEAR:]])
    return standing


def described_query(facts: Facts, name: str, kind: str = "stream, table or query") -> Standing | Registered:
    """The query that is described by its name, where something else of a kind might be, too. Raises: Refusal."""
    found = facts.catalog.query(name) or facts.row_query(name)
    if found is None:
        raise unknown(facts, kind, name, Names(facts).names())
    return found


def unknown(facts: Facts, kind: str, name: str, known: Iterable[str]) -> Refusal:
    """That there is no stream, table or query of a name."""
    other = Names(facts).lookup(name)
    is_row_query = other is None and facts.row_query_id(name) is not None
    message = f"there is no {kind} '{name}'"
    if other is not None or is_row_query:
        message = f"'{name}' is not a {kind} but a {'query' if other is None else kind_of(other)}"
    return Refusal(message, words=(name,), expected=f"the name of a {kind}", nearest=nearest(name, known))


def kind_of(found: StreamDefinition | TableDefinition | QueryDefinition) -> str:
    """What something with a name is."""
    match found:
        case StreamDefinition():
            return "stream"
        case TableDefinition():
            return "table"
        case QueryDefinition():
            return "query"


def check_free(facts: Facts, name: str) -> None:
    """Refuse a name that something has. Raises: Refusal."""
    if name.lower() == SYSSTREAM or facts.catalog.lookup(name) or facts.row_query_id(name) is not None:
        raise taken(name)


def taken(name: str) -> Refusal:
    """That something has a name."""
    return Refusal(f"the name '{name}' is taken", words=(name,), expected="a new name, or DROP the old one first")
