"""EXPLAIN: each operator explains itself; here it is asked, and what only the pond knows is put beside its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias, assert_never

import pyarrow as pa

from millpond.answers.adhoc import select_stream
from millpond.answers.describe.pond_status import source_of
from millpond.answers.describe.reduction_plans import analyzed_reduction, planned_reduction, standing_reduction
from millpond.answers.describe.table_listing import table_fact
from millpond.answers.describe.work import epochs_node, work_done
from millpond.answers.row_queries.ready import ready_of
from millpond.answers.row_queries.selection import evaluate, select_once
from millpond.archive.planning.ranges import Range
from millpond.archive.retention import keep_of_rows, retained_from
from millpond.archive.summed.serving import served
from millpond.catalog import Registered, Standing
from millpond.engine.instruments import Instruments
from millpond.engine.pond_view import PondView
from millpond.functions import display
from millpond.language import TableQuery
from millpond.language.plan.event_time_bounds import event_times
from millpond.language.rewrite.unnamed_streams import stream_of
from millpond.manifests.places import query_owner
from millpond.manifests.quarantine import Failures
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.plan_facts import Done, PlanFacts
from millpond.operators.registry import KINDS, Operators, operators_of
from millpond.operators.windowed.window_plans import filter_and_keys, over, summary_facts
from millpond.progress import NEVER, StreamProgress
from millpond.synopses import spec_of
from millpond.synopses.finish import unnamed
from millpond.synopses.pane_partials import over_all_time
from millpond.types import (
    GroupScan,
    InnerStream,
    PairsQuery,
    Query,
    RelationQuery,
    RowQuery,
    RowScan,
    RowWindowQuery,
    ScanQuery,
    SessionQuery,
    Staged,
    StreamDefinition,
    StreamQuery,
    WindowQuery,
)
from millpond.types.durations import duration
from millpond.types.instants import moment
from millpond.types.plan_nodes import Fact, PlanNode, said
from millpond.types.reduction_forms import reduction_text

#: What can be explained: streams, standing queries, and SELECTs that nobody has registered.
Explained: TypeAlias = "StreamDefinition | Standing | Registered | Query | Staged | ScanQuery | TableQuery"


def explained(pond: PondView, instruments: Instruments, subject: Explained, analyze: bool) -> PlanNode:
    """How something is answered, or where a stream comes from and goes.

    Args:
        analyze: and what that took in the last epochs; an ad hoc query that is reduced is answered for it.
    """
    with pond.pinned():
        node = _Explaining(pond, instruments, analyze).explained(subject).reworded(display)
    timed = analyze and isinstance(subject, Standing | StreamDefinition)
    return node.with_more(children=(epochs_node(instruments.telemetry),)) if timed else node


class _Explaining:
    """One EXPLAIN, as of one moment."""

    def __init__(self, pond: PondView, instruments: Instruments, analyze: bool) -> None:
        self.pond = pond
        self.facts = facts_of(pond, instruments, analyze)
        self.operators: Operators = operators_of(self.facts.catalog)

    def explained(self, subject: Explained) -> PlanNode:
        """The plan of anything."""
        match subject:
            case StreamDefinition():
                return self.stream(subject)
            case Standing():
                return self.standing(subject)
            case Registered():
                return self.registered(subject)
            case Staged():
                return self.staged(subject)
            case GroupScan() | RowScan():
                return self.scan(subject)
            case TableQuery():
                return self.tables(subject)
            case _:
                return self.once(subject)

    # -- queries

    def tables(self, query: TableQuery) -> PlanNode:
        """SQL over tables, answers and streams as tables; under it what is read of each stream."""
        title = "tables, answers and streams as tables, put together by DuckDB in one process"
        held = self.held(query.inner)
        asked = tuple(self.explained(each) if each.of_groups else self.read_rows(each) for each in query.asked.values())
        return PlanNode("tables", title, (said("sql", query.sql),), (*asked, *held))

    def read_rows(self, scan: RowScan) -> PlanNode:
        """What is read of a stream that is a table: columns, conditions, and a range of event times."""
        stream = self.facts.catalog.stream(scan.stream)
        assert stream is not None
        first, beyond = event_times(scan.where, stream.options.time)
        # A microsecond more is read at both ends: constants may have nanoseconds.
        times = [f"from {moment(first + 1)}"] if first is not None else []
        times += [f"to {moment(beyond - 1)}"] if beyond is not None else []
        facts = [Fact("columns", ", ".join(o.name for o in scan.select))]
        facts += [Fact("filter", scan.where.sql)] if scan.where is not None else []
        facts += [Fact("event times", " ".join(times))] if times else []
        return PlanNode("rows", f"rows of {scan.stream} as a table", tuple(facts))

    def answered(self, query: Query, standing: Standing | None, facts: PlanFacts) -> PlanNode:
        """How the operator of its kind answers a query; a kind that fails to say so spoils no query of another."""
        failures = Failures(facts.catalog, "EXPLAIN")
        for kind in KINDS:
            part = partial(kind.explain_query, facts, query, standing)
            if (node := failures.attempt(kind.__name__, part, attempts=1)) is not None:
                return node
        return _failed(failures)

    def attempt(self, owner: str, part: Callable[[], PlanNode | None]) -> tuple[PlanNode, ...]:
        """What an operator says of itself, if anything; one that fails spoils nothing but its own part of the plan."""
        failures = Failures(self.facts.catalog, "EXPLAIN")
        node = failures.attempt(owner, part, attempts=1)
        return (_failed(failures),) if failures.reasons else () if node is None else (node,)

    def standing(self, standing: Standing) -> PlanNode:
        """A query with an operator of its own: how it is answered, from which state, over which streams."""
        facts, query, owner = self.facts, standing.definition.query, query_owner(standing.id)
        node = self.answered(query, standing, facts)
        reason = f": {standing.reason}" if standing.reason else ""
        more = [Fact("status", f"{standing.status}{reason}; live from epoch {standing.first_epoch}")]
        parts = [
            node
            for each in standing.owners
            if each in self.operators.storing
            for node in self.attempt(each, partial(self.operators.storing[each].explain, facts, standing))
        ]
        parts += standing_reduction(self.pond.published, standing)
        inner = [s for s in facts.catalog.streams_of(standing) if s.is_inner]
        parts += [self.inner(standing, stream) for stream in inner]
        if facts.done is not None:
            did, known = facts.done.get(owner, Done()), facts.published.queries.get(str(standing.id), QueryProgress())
            reported = f"{known.windows}, revised: {known.revisions}, rows too late: {known.too_late}"
            more += [Fact("answers", f"{did.rows_out} rows, {did.seconds:.3f} s"), Fact("rows reported", reported)]
        node = node.with_more(tuple(more), tuple(parts))
        for stream in inner:
            node = node.reworded(partial(_called, stream.name, stream.label))
        return node

    def inner(self, reader: Standing, stream: StreamDefinition) -> PlanNode:
        """How a stream is made that stands without a name in a query's FROM."""
        catalog, [query] = self.facts.catalog, stream.queries
        made = self.standing(catalog.queries[query])
        others = sorted(n for n in catalog.readers_of(stream.id) if n != reader.definition.name)
        shared = f"shared with {', '.join(others)}" if others else "its own"
        change = "take others back" if stream.takes_back else "stay as they are"
        return _titled(made, f"query over {stream.label}, an epoch after they form; they {change}, {shared}")

    def registered(self, registered: Registered) -> PlanNode:
        """A row query: how it is answered, how much of the answer is kept ready, and how often it is asked for."""
        pond, query = self.pond, registered.selection
        number = registered.id
        node = self.answered(query, None, self.facts)
        form, reason = ready_of(pond).keeper.form(number, registered.options.materialize)
        last, calls = pond.register.usage(number)
        at = f", last at {moment(last)}" if calls else ""
        others = [len(pond.register.table(stream)) for stream in dict.fromkeys(registered.streams)]
        more = (
            Fact("materialize", f"{registered.options.materialize}; now {form}: {reason}"),
            said("invoked", f"invoked {calls} times since the pond was opened{at}"),
            Fact("status", f"{registered.status}; registered after epoch {registered.registered_epoch}"),
            said("index", f"the predicate index holds {' and '.join(map(str, others))} queries of the stream"),
        )
        if query.query.reduce is None:
            return node.with_more(more)
        if self.facts.analyzed:
            return node.with_more(more, tuple(analyzed_reduction(evaluate(pond, registered).table)))
        whole = f"rows after epoch {registered.registered_epoch} are whole; earlier ones are read reduced"
        reduced = PlanNode("reduce", f"reduce: {reduction_text(query.query.reduce)}", (said("whole", whole),))
        return node.with_more(more, (reduced,))

    def once(self, query: Query) -> PlanNode:
        """An ad hoc query: what its operator would be."""
        node = self.answered(query, None, self.facts)
        match query:
            case RowQuery():
                reduced = self.reduced(query.query, lambda: select_once(self.pond, query).table)
                return node.with_more((said("ad hoc", "ad hoc: nothing is kept"),), reduced)
            case WindowQuery() | RowWindowQuery() | SessionQuery():
                return node.with_more(children=self.reduced(query, lambda: select_stream(self.pond, query)))
            case RelationQuery() | PairsQuery():
                return node
            case _:
                assert_never(query)

    def scan(self, query: ScanQuery) -> PlanNode:
        """An ad hoc query over the rows of a stream, which no operator answers but a scan of the archive."""
        facts, stream = self.facts, self.facts.catalog.stream(query.stream)
        assert stream is not None
        found = [said("ad hoc", "ad hoc over the archive and live data up to now"), *filter_and_keys(query)]
        if query.of_groups:
            everything, low = unnamed(over_all_time(query, stream.options.time)), retained_from(stream, facts.published)
            wanted = Range(low if low > NEVER else None)
            found += summary_facts(facts, stream, everything, spec_of(everything, stream), wanted)
        reduced = self.reduced(query, lambda: select_stream(self.pond, query))
        return PlanNode("scan", over(query, stream), tuple(found), reduced)

    def reduced(self, query: StreamQuery, answer: Callable[[], pa.Table]) -> tuple[PlanNode, ...]:
        """What REDUCE leaves out of an ad hoc query; where it is analysed the query is answered, to tell it."""
        if query.reduce is None or not query.reduce.samples:
            return ()
        analyzed = self.facts.analyzed
        return tuple(analyzed_reduction(answer()) if analyzed else planned_reduction(self.pond.archives, query))

    def staged(self, staged: Staged) -> PlanNode:
        """A SELECT over streams without a name that nobody has registered."""
        inner = self.held(staged.inner)
        return self.answered(staged.query, None, self.facts).with_more(children=inner)

    def held(self, inner: Sequence[InnerStream]) -> tuple[PlanNode, ...]:
        """What streams are made of that are rows in memory; they are there from now on."""
        catalog = self.facts.catalog
        for number, each in enumerate(inner, 1):
            stream = stream_of(each)
            derived = None if stream.derived is None else replace(stream.derived, inner=each.name)
            made = replace(stream, id=-number, derived=derived)
            catalog = replace(catalog, streams={**catalog.streams, made.id: made})
        self.facts = replace(self.facts, catalog=catalog)
        return tuple(
            PlanNode("held", f"rows in memory: {each.name}")
            if each.answers
            else _titled(self.answered(each.query, None, self.facts), f"rows in memory: {each.name}")
            for each in inner
        )

    # -- streams

    def stream(self, stream: StreamDefinition) -> PlanNode:
        """Where the rows of a stream come from, how long they are kept, and who takes them."""
        facts, catalog = self.facts, self.facts.catalog
        bound = facts.published.progress.get(str(stream.id), StreamProgress()).bound
        keep = keep_of_rows(stream)
        readers = sorted(catalog.readers_of(stream.id))
        read = f"read by {', '.join(dict.fromkeys(readers))}" if readers else "read by no window query and no stream"
        groups = f", by {', '.join(stream.options.marked_by)} for groups" if stream.options.marked_by else ""
        late = f"watermark {moment(bound)}{groups}; late rows: {stream.options.late}"
        found = [said("event time", f"event time {stream.options.time}, {late}")]
        found += [said("kept", f"rows are kept for {duration(keep.time)}")] if keep.time is not None else []
        found += [said("kept", f"rows are kept up to {keep.size:,} bytes")] if keep.size is not None else []
        found += [Fact("archive", stream.options.archive)] if stream.options.archive != "plain" else []
        found.append(said("readers", read))
        node = PlanNode("stream", f"stream {stream.name}: {source_of(catalog, stream)}", tuple(found))
        parts = [n for o in self.operators for n in self.attempt(o.owner, partial(o.explain_stream, facts, stream))]
        return self._of_answers(node, stream).with_more(children=tuple(parts))

    def _of_answers(self, node: PlanNode, stream: StreamDefinition) -> PlanNode:
        """With the query whose answers are the rows of the stream."""
        for standing in [self.facts.catalog.queries[q] for q in stream.queries]:
            published = "answers are rows an epoch after they are published"
            found = [said("answers", f"{published}; revisions: {stream.derived and stream.derived.revisions}")]
            if delay := standing.definition.options.delay:
                final = f"windows are answered {duration(delay)} behind the watermark, when they are final"
                found.append(said("delay", final))
            node = node.with_more(tuple(found), (self.standing(standing),))
        return node


def facts_of(pond: PondView, instruments: Instruments, analyze: bool) -> PlanFacts:
    """What operators are told of a pond; see `PlanFacts`."""
    done = work_done(pond.archives, instruments.telemetry) if analyze else None
    with pond.lock:
        return PlanFacts(
            pond.path,
            pond.catalog,
            pond.published,
            instruments.controllers.filters,
            pond.storage.state.segments,
            pond.storage.summaries.segments,
            {stream: runtime.archive.snapshot for stream, runtime in pond.streams.items()},
            partial(served, pond.archives, make=False),
            partial(table_fact, pond),
            lambda stream: len(pond.register.on_stream(stream)),
            done,
        )


def _failed(failures: Failures) -> PlanNode:
    return PlanNode("failed", f"cannot be explained: {'; '.join(failures.reasons.values())}")


def _titled(node: PlanNode, title: str) -> PlanNode:
    """A plan under another title, with its own as what it says first."""
    return replace(node, title=title, facts=(said("query", node.title), *node.facts))


def _called(name: str, label: str, text: str) -> str:
    return text.replace(name, label)


__all__ = ["explained"]
