"""The kinds of operators there are, and the operators of a catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from millpond.catalog import Catalog
from millpond.operators.contract import Answering, Operator
from millpond.operators.copies.operator import Copies
from millpond.operators.derived.operator import DerivedAnswers, DerivedRows
from millpond.operators.pairs.operator import PairsOperator
from millpond.operators.panes.operator import PanesOperator
from millpond.operators.relation.operator import RelationOperator
from millpond.operators.relational.readers import RowReader
from millpond.operators.row_query.operator import RowQueries
from millpond.operators.rows.operator import RowsOperator
from millpond.operators.sessions.operator import SessionsOperator
from millpond.operators.stores.operator import StoreOperator
from millpond.operators.stream_operator import StreamOperator
from millpond.operators.summaries.operator import SummaryOperator
from millpond.operators.windowed.operator import WindowOperator
from millpond.support.errors import Refusal
from millpond.support.spelling import nearest
from millpond.synopses import Spec
from millpond.types import RelationalQuery, ScanQuery, StandingQuery, StreamDefinition
from millpond.types.options.asked_operators import parse_operators

#: A line for each kind, behind those that it reads.
KINDS: tuple[type[Operator], ...] = (
    Copies,
    PanesOperator,
    RowsOperator,
    SessionsOperator,
    SummaryOperator,
    StoreOperator,
    RelationOperator,
    PairsOperator,
    DerivedAnswers,
    DerivedRows,
    RowQueries,
)


#: Those that a stream can ask for, by what its option `operators` calls them.
ASKED = {kind.word: kind for kind in KINDS if issubclass(kind, StreamOperator)}


@dataclass(frozen=True)
class Operators:
    """The operators of one catalog, each behind those that it reads."""

    all: tuple[Operator, ...]

    def __iter__(self) -> Iterator[Operator]:
        return iter(self.all)

    @cached_property
    def named(self) -> Mapping[str, Operator]:
        """By their own names."""
        return {operator.owner: operator for operator in self.all}

    @cached_property
    def storing(self) -> Mapping[str, Operator]:
        """By the names that they store chunks of state under."""
        return {owner: operator for operator in self.all for owner in operator.owners}

    @cached_property
    def answering(self) -> Mapping[int, Answering]:
        """By the queries that they answer."""
        found = [operator for operator in self.all if isinstance(operator, Answering)]
        return {standing.id: operator for operator in found for standing in operator.users()}


#: The operators of the catalog that was asked for last.
_last: list[tuple[Catalog, Operators]] = []


def windows_over(spec: Spec) -> type[WindowOperator]:
    """The kind of windows that are made of a synopsis."""
    return next(kind for kind in KINDS if issubclass(kind, WindowOperator) and isinstance(spec, kind.spec_kind))


def relations_over(query: RelationalQuery) -> type[RowReader[Any]]:
    """The kind of operators that answers a relational query."""
    return next(kind for kind in KINDS if issubclass(kind, RowReader) and isinstance(query, kind.query_kind))


def state_of(catalog: Catalog) -> Iterator[Operator]:
    """An operator for all state that queries share, or shared before they were quarantined."""
    for synopsis in catalog.synopses.values():
        yield windows_over(synopsis.spec)(catalog, synopsis)
    for store in catalog.stores.values():
        yield StoreOperator(catalog, store)


def kinds_answering(query: StandingQuery | ScanQuery) -> list[type[Answering]]:
    """The kinds of operators that answer a query: one, if it may stand."""
    return [kind for kind in KINDS if issubclass(kind, Answering) and isinstance(query, kind.query_kind)]


def answering_kind(query: StandingQuery) -> type[Answering]:
    """The kind of operators that answers a query; for a quarantined one there is the kind, and no operator."""
    return kinds_answering(query)[0]


def check_asked(stream: StreamDefinition) -> None:
    """Raises: Refusal when a stream asks for an operator that there is not, or that cannot be of such a stream."""
    for asked in parse_operators(stream.options.operators):
        if asked.word not in ASKED:
            known = f"one of {', '.join(sorted(ASKED))}" if ASKED else "one that is added: docs/adding-an-operator.md"
            raise Refusal(f"there is no operator '{asked.word}'", "operators", (), known, nearest(asked.word, ASKED))
        ASKED[asked.word](stream, asked.arguments, str(asked))


def operators_of(catalog: Catalog) -> Operators:
    """The operators of a catalog."""
    for known, operators in _last:
        if known is catalog:
            return operators
    found = tuple(operator for kind in KINDS for operator in kind.of(catalog))
    for operator in found:
        operator.readers = tuple(o for o in found if operator.owner in o.inputs)
    operators = Operators(found)
    _last[:] = [(catalog, operators)]
    return operators
