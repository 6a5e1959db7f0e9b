"""What EXPLAIN says of filters and of pipelines of joins: their order, what it rests on, and how it came about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from millpond.adapt.filter_plans import FilterReoptimiser
from millpond.adapt.observations import Observation
from millpond.adapt.plan_log import LogEntry
from millpond.catalog import Standing
from millpond.operators.filters.subjects import PipelineSubject, Subject
from millpond.operators.plan_facts import PlanFacts
from millpond.types.instants import moment
from millpond.types.plan_nodes import Fact, said

#: Changes of an order that EXPLAIN ANALYZE shows, the last ones.
SHOWN = 5


def order_facts(facts: PlanFacts, subject: str, asker: Standing | None = None) -> list[Fact]:
    """The order of a condition with registered functions, or of a pipeline; nothing where there is none to choose.

    Args:
        subject: as of `subjects`. asker: the query that is explained.
    """
    held = facts.filters.of(facts.catalog, subject)
    if held is None:
        return []
    about, reoptimiser, seen = held
    name = "pipeline" if isinstance(about, PipelineSubject) else "filters"
    title = f"pipeline of {about.input}" if isinstance(about, PipelineSubject) else "filters, in this order"
    found = [
        said(name, f"{title}: {', '.join(_executed(about, reoptimiser.order))}"),
        Fact("order", f"{_way(reoptimiser)}{_whose(facts, about, asker)}"),
    ]
    return [*found, *_analysis(about, reoptimiser, seen)] if facts.analyzed else found


def _analysis(subject: Subject, reoptimiser: FilterReoptimiser, seen: Observation | None) -> Iterator[Fact]:
    """What an order rests on: what was seen last, when it was changed, and what another would have taken."""
    if seen is not None:
        for i in reoptimiser.order:
            each = seen.operators[i]
            passed = "-" if each.selectivity is None else f"{each.selectivity:.3f}"
            took = f", {each.seconds / each.rows_in * 1e6:.2f} us a row" if each.rows_in else ""
            named = f"{subject.kind} {_named(subject, i)}"
            yield said(subject.kind, f"{named}: {each.rows_in:,} rows in, passes {passed}{took}")
        yield Fact(
            "profiling",
            f"{reoptimiser.profiled:.4f} of the dropped rows lately, {reoptimiser.share:.1%} of the time"
            f" of {subject.kind}s (budget {reoptimiser.options.budget:.0%})",
        )
    log = reoptimiser.log
    for entry in [e for e in log.entries if e.plan != e.under][-SHOWN:]:
        yield _change(entry, subject)
    if (static := log.best_static()) is not None:
        order, cost, ours = static
        names = ", ".join(subject.told(order))
        yield said(
            "best order",
            f"best order that never changes: {names}: {cost:.2f} us a row; the orders used: {ours:.2f}",
        )


def _way(reoptimiser: FilterReoptimiser) -> str:
    if reoptimiser.way == "off":
        return "as written (adapt='off')"
    if reoptimiser.orderer is None:
        return "there is one filter"
    settings = reoptimiser.orderer.settings
    return (
        f"kept by {reoptimiser.way}: p = {settings.probability:g}, window {settings.window} profile tuples,"
        f" alpha = {settings.alpha:g}"
    )


def _whose(facts: PlanFacts, subject: Subject, asker: Standing | None) -> str:
    """Whose options these are, where they are not the asker's own: they have been changed since it shares."""
    oldest = facts.catalog.query(subject.users[0]) if subject.users and asker is not None else None
    if oldest is None or asker is None or oldest.definition.options.ordering == asker.definition.options.ordering:
        return ""
    return f"; as {oldest.definition.name} wants it, with which it shares the state: its own options do not count"


def _change(entry: LogEntry, subject: Subject) -> Fact:
    told = ", ".join(subject.told(entry.plan))
    return said("change", f"changed after epoch {entry.epoch} ({moment(entry.time)}) to {told}: {entry.reason}")


def _named(subject: Subject, number: int) -> str:
    name = subject.filters[number]
    return f"{subject.input} > {name}" if isinstance(subject, PipelineSubject) else name


def _executed(subject: Subject, order: Sequence[int]) -> list[str]:
    """An order, with the inputs of a join that are not only asked whether there is a partner."""
    if not isinstance(subject, PipelineSubject):
        return subject.told(order)
    pipeline = subject.pipeline(order)
    growing = subject.graph.growing(subject.number, pipeline)
    names = subject.plan.names
    return [f"{names[n]} (joined at once)" if n in growing else names[n] for n in pipeline]
