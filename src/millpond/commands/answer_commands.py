"""SELECT, INVOKE, EXPLAIN, SHOW: what is asked, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from millpond import language as lang
from millpond.catalog import Registered, Standing
from millpond.commands.naming import NO_FILES, NamesAndFiles, described_query, query_named, stream_named
from millpond.commands.pond_facts import Facts
from millpond.commands.query_checks import check_options, check_reduction
from millpond.support.errors import QueryError, Refusal
from millpond.support.file_forms import FileForm
from millpond.types import Query, QueryOptions, RowQuery, ScanQuery, Staged, StreamDefinition

#: What a SELECT is when its names are bound: about rows, windows or a relation of streams, or about answers and tables.
Bound: TypeAlias = "Query | Staged | ScanQuery | lang.TableQuery"


@dataclass(frozen=True)
class AskOnce:
    """An ad hoc SELECT."""

    bound: Query | Staged | ScanQuery | lang.TableQuery


@dataclass(frozen=True)
class AskStanding:
    """INVOKE of a query, as the statement says."""

    standing: Standing | Registered
    statement: lang.Invoke


@dataclass(frozen=True)
class AskShow:
    """SHOW. streams: of SHOW ARCHIVE, those that are named; none: all."""

    statement: lang.Show
    streams: tuple[StreamDefinition, ...] = ()


@dataclass(frozen=True)
class AskPlan:
    """EXPLAIN of a stream, of a standing query, or of a SELECT."""

    subject: StreamDefinition | Standing | Registered | Bound
    analyze: bool


@dataclass(frozen=True)
class AskCopy:
    """COPY … TO: what is asked, and the file that the answer goes into."""

    asked: AskOnce
    form: FileForm


@dataclass(frozen=True)
class AskRows:
    """A question whose answer the catalog has already: names of columns, and rows of texts."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Question: TypeAlias = AskOnce | AskCopy | AskStanding | AskShow | AskPlan | AskRows


def ask_copy(facts: Facts, statement: lang.Copy) -> Question:
    """What COPY asks. Raises: StatementError where its SELECT cannot be bound; Refusal where it may not write."""
    if not facts.files:
        raise Refusal(NO_FILES, words=(statement.form.path,))
    return AskCopy(_once(facts, statement), statement.form)


def ask_select(facts: Facts, statement: lang.Select) -> Question:
    """What a SELECT asks. Raises: StatementError where it cannot be bound; Refusal."""
    return _once(facts, statement)


def _once(facts: Facts, statement: lang.Select | lang.Copy) -> AskOnce:
    bound = lang.bind_select(statement.select, NamesAndFiles(facts))
    match bound:
        case RowQuery():
            check_reduction(bound.query)
        case lang.TableQuery():
            pass
        case _:
            check_options(facts.catalog, bound, QueryOptions())
    return AskOnce(bound)


def ask_invoke(facts: Facts, statement: lang.Invoke) -> Question:
    """What INVOKE asks. Raises: Refusal."""
    standing = query_named(facts, statement.query)
    if isinstance(standing, Standing):
        if standing.status == "quarantined":
            raise QueryError(
                f"query '{standing.definition.name}' is quarantined: {standing.reason}; CREATE OR REPLACE mends it"
            )
        if statement.begin is not None or statement.end is not None:
            raise Refusal(
                f"'{statement.query}' is a window query, whose window is RANGE; BEGIN … END is for row queries",
                words=("BEGIN", "END"),
            )
    return AskStanding(standing, statement)


def ask_show(facts: Facts, statement: lang.Show) -> Question:
    """What SHOW asks. Raises: Refusal."""
    named = () if statement.name is None else (stream_named(facts, statement.name),)
    return AskShow(statement, named)


def ask_explain(facts: Facts, statement: lang.Explain) -> Question:
    """What EXPLAIN asks. Raises: StatementError where a SELECT cannot be bound; Refusal."""
    if not isinstance(statement.target, str):
        bound = lang.bind_select(statement.target, NamesAndFiles(facts))
        return AskPlan(bound, statement.analyze)
    stream = facts.catalog.stream(statement.target)
    if stream is not None and not stream.is_inner:
        return AskPlan(stream, statement.analyze)
    return AskPlan(described_query(facts, statement.target, "stream or query"), statement.analyze)
