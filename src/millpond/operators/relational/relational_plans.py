"""What EXPLAIN says of queries of CQL, relations and pairs alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from millpond.catalog import Standing
from millpond.catalog.unions import late_of
from millpond.operators.plan_facts import PlanFacts
from millpond.types import (
    HOLDS,
    LatestRowsWindow,
    RangeWindow,
    RelationalQuery,
    RelationInput,
    RelationWindow,
    TumblingWindow,
    UnboundedWindow,
)
from millpond.types.durations import duration, open_text
from millpond.types.plan_nodes import Fact, PlanNode, said
from millpond.types.reduction_forms import reduction_text


def relational_plan(
    operator: str,
    facts: PlanFacts,
    query: RelationalQuery,
    standing: Standing | None,
    gives: str,
    own: Sequence[Fact],
) -> PlanNode:
    """How a query of CQL is answered.

    Args:
        standing: the query as it is registered; None: nobody has. gives: what its answers are. own: what its kind has
            to say.
    """
    found = [fact for item in query.inputs for fact in _input(item, standing)]
    found += [facts.table(table.name) for table in query.tables]
    found += own
    if standing is None:
        found.append(said("ad hoc", "ad hoc over the archive and live data up to now"))
    else:
        found.append(_late(facts, query, standing))
    return PlanNode(operator, f"CQL query: {gives}", tuple(found))


def _input(item: RelationInput, standing: Standing | None) -> Iterator[Fact]:
    """The window of an input, how much of its past is read, and what is filtered below the window."""
    keeps = ", ".join(c.name for c in item.columns if c.name != HOLDS)
    yield said("input", f"input {' UNION ALL '.join(item.names)}: {_window(item.window)}; keeps {keeps}")
    if item.reduce is not None:
        whole = "" if standing is None else f"; rows from epoch {standing.first_epoch} on are live and whole"
        yield Fact("reduce", f"{reduction_text(item.reduce)}{whole}")
    if item.where:
        yield Fact("filter below the window", str(item.where))
    elif item.mark:
        asked = "asked when a row comes and kept with it, since it chooses among the rows of the window"
        yield Fact("filter", f"{item.mark}; {asked} and cannot go below it")
    elif isinstance(item.window, LatestRowsWindow):
        yield said("filter", "filters stay above the window: they do not commute with counting rows")


def _window(window: RelationWindow) -> str:
    match window:
        case RangeWindow():
            if open_range := open_text(window.range):
                return f"range {open_range}, open"
            return f"range {duration(window.range)}, closed at both ends" if window.range else "now"
        case TumblingWindow():
            return f"intervals of {duration(window.range)}"
        case LatestRowsWindow():
            of = f" of each {', '.join(window.partition)}" if window.partition else ""
            return f"the last {window.rows} rows{of}"
        case UnboundedWindow():
            return "unbounded"
        case _:
            assert_never(window)


def _late(facts: PlanFacts, query: RelationalQuery, standing: Standing) -> Fact:
    """What late rows do, and for how long."""
    stores = [facts.catalog.stores[owner].spec for owner in standing.inputs]
    late = ", ".join(dict.fromkeys(late_of(facts.catalog, spec) for spec in stores))
    spare = duration(query.revised_for(standing.definition.options))
    return Fact("late rows", late + (f", for {spare} behind the watermark" if "revise" in late else ""))


def input_text(item: RelationInput) -> str:
    """The window of an input as in SQL."""
    window = item.window
    match window:
        case LatestRowsWindow():
            by = f"PARTITION BY {', '.join(window.partition)} " if window.partition else ""
            return f"[{by}ROWS {window.rows}]"
        case TumblingWindow():
            return f"[RANGE TUMBLING {duration(window.range)}]"
        case RangeWindow():
            if open_range := open_text(window.range):
                return f"[RANGE {open_range} OPEN]"
            return f"[RANGE {duration(window.range)}]" if window.range else "[NOW]"
        case UnboundedWindow():
            return "[RANGE UNBOUNDED]"
        case _:
            assert_never(window)
