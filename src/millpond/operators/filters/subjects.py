"""What has an order that is kept while it runs: conditions with registered functions, and pipelines of joins.

A subject is what evaluates something once for all who share it: a synopsis, a store, a derived stream of rows; or the
pipeline of one input of a join of many.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from millpond.adapt.filter_plans import FilterOptions
from millpond.catalog import Catalog, Standing
from millpond.functions import display, function_of
from millpond.manifests.quarantine import Failures
from millpond.synopses.conjunctions import Conjunction, conjunction_of
from millpond.types import JoinPlan, QueryOptions, RelationQuery, StreamDefinition
from millpond.types.join_graphs import JoinGraph, graph_of
from millpond.types.stream_definitions import RowDerivation


@dataclass(frozen=True)
class Subject(ABC):
    """What has an order. users: the standing queries whose it is, by name, the oldest first."""

    name: str
    options: FilterOptions
    users: tuple[str, ...]

    @property
    @abstractmethod
    def kind(self) -> str:
        """What `sysstream` calls each of its filters."""

    @property
    @abstractmethod
    def filters(self) -> tuple[str, ...]:
        """The filters as a reader knows them."""

    @property
    @abstractmethod
    def costs(self) -> list[float | None]:
        """Microseconds that the filters are said to take, each."""

    @abstractmethod
    def told(self, order: Sequence[int]) -> list[str]:
        """An order of the filters as it is executed."""

    @abstractmethod
    def is_same(self, other: Subject) -> bool:
        """Whether another one has the same filters, so that what was learnt of it is good."""

    @property
    def entities(self) -> list[str]:
        """What `sysstream` calls the filters: after the oldest query that has them."""
        owner = self.users[0] if self.users else self.name
        return [f"{owner}: {text}" for text in self.filters]


@dataclass(frozen=True)
class FilterSubject(Subject):
    """A condition that is evaluated for standing queries."""

    conjunction: Conjunction

    @property
    def kind(self) -> str:
        return "filter"

    @property
    def filters(self) -> tuple[str, ...]:
        return tuple(display(f.sql) for f in self.conjunction.filters)

    @property
    def costs(self) -> list[float | None]:
        found: list[float | None] = []
        for each in self.conjunction.filters:
            told = [function_of(r).definition.cost for r in each.registered]
            found.append(sum(c for c in told if c is not None) if any(c is not None for c in told) else None)
        return found

    def told(self, order: Sequence[int]) -> list[str]:
        filters = self.filters
        return [filters[i] for i in order]

    def is_same(self, other: Subject) -> bool:
        return isinstance(other, FilterSubject) and other.conjunction == self.conjunction


@dataclass(frozen=True)
class PipelineSubject(Subject):
    """The pipeline of an input of a join. Its filters are the logical ones of the other inputs (Babu 2005, 5.2.2)."""

    number: int
    plan: JoinPlan

    @cached_property
    def graph(self) -> JoinGraph:
        """The join graph."""
        return graph_of(self.plan)

    @property
    def kind(self) -> str:
        return "probe"

    @property
    def others(self) -> tuple[int, ...]:
        """The FROM item of each filter."""
        return tuple(n for n in range(len(self.plan.items)) if n != self.number)

    @property
    def input(self) -> str:
        """The input as the query calls it."""
        return self.plan.names[self.number]

    @property
    def filters(self) -> tuple[str, ...]:
        return tuple(self.plan.names[n] for n in self.others)

    @property
    def costs(self) -> list[float | None]:
        return [None] * len(self.others)

    @property
    def entities(self) -> list[str]:
        return [f"{self.users[0]}: {self.input} > {other}" for other in self.filters]

    def pipeline(self, order: Sequence[int]) -> tuple[int, ...]:
        """The other FROM items in the order that an order of the logical filters stands for."""
        return self.graph.order(self.number, [self.others[f] for f in order])

    def told(self, order: Sequence[int]) -> list[str]:
        return [self.plan.names[n] for n in self.pipeline(order)]

    def is_same(self, other: Subject) -> bool:
        return isinstance(other, PipelineSubject) and (other.number, other.plan) == (self.number, self.plan)


def stream_subject(stream: StreamDefinition) -> str:
    """The subject of a derived stream of rows."""
    return f"stream {stream.id}"


def pipeline_subject(query: int, number: int) -> str:
    """The subject of an input's pipeline."""
    return f"join {query} {number}"


def options_of(options: QueryOptions) -> FilterOptions:
    """What the options of a query say about its orders."""
    return FilterOptions(
        options.adapt, options.adapt_probability, options.adapt_window, options.adapt_alpha, options.adapt_budget
    )


def subjects(catalog: Catalog) -> Iterator[Subject]:
    """The conditions with registered functions that map tasks evaluate, and the pipelines of joins of many inputs."""
    if catalog.functions:
        yield from _filters(catalog)
    none: list[PipelineSubject] = []
    for found in Failures(catalog, "orders of joins").each(catalog.running(), lambda q: list(pipelines_of(q)), none):
        yield from found


def pipelines_of(standing: Standing) -> Iterator[PipelineSubject]:
    """The pipelines of a query in which there is something to be ordered."""
    definition = standing.definition
    relation = definition.query
    if not isinstance(relation, RelationQuery):
        return
    plan = relation.joined
    if plan is None or not plan.kind.inner or len(plan.items) < 3 or not plan.names:
        return
    streams = {i.alias for i in relation.inputs}
    for number, alias in enumerate(plan.items):
        if alias in streams:  # tables do not change while they are joined
            name = pipeline_subject(standing.id, number)
            yield PipelineSubject(name, options_of(definition.options), (definition.name,), number, plan)


def _filters(catalog: Catalog) -> Iterator[FilterSubject]:
    owned = [(s.owner, s.spec.where) for s in catalog.synopses.values()]
    owned += [(s.owner, s.spec.condition) for s in catalog.stores.values() if not s.spec.narrowed]
    for owner, where in owned:
        conjunction = conjunction_of(where)
        if conjunction is not None:
            users = sorted((u.definition for u in catalog.users(owner)), key=lambda d: d.id)
            options = options_of(users[0].options) if users else FilterOptions()
            yield FilterSubject(owner, options, tuple(u.name for u in users), conjunction)
    for stream in catalog.streams.values():
        if isinstance(stream.derived, RowDerivation):
            conjunction = conjunction_of(stream.derived.where)
            if conjunction is not None:
                options = options_of(stream.derived.options or QueryOptions())
                yield FilterSubject(stream_subject(stream), options, (stream.name,), conjunction)
