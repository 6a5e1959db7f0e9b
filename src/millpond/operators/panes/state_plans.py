"""What EXPLAIN ANALYZE says of state: which groups are kept in which form, and what the other form would take."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.compute as pc

from millpond.archive.archive_files import row_schema
from millpond.catalog import Synopsis
from millpond.catalog.unions import progress_of, streams_of
from millpond.manifests.places import state_folder
from millpond.manifests.quarantine import Failures
from millpond.operators.panes.adapting import current, first_open, recorded
from millpond.operators.panes.forms import TUPLES, are_tuples, as_partials, row_bytes
from millpond.operators.plan_facts import PlanFacts
from millpond.operators.windowed.stored import PANES
from millpond.progress import NEVER, StreamProgress
from millpond.support.distinct import distinct
from millpond.support.sql import quote
from millpond.synopses import PanesSpec, connection, merge_partials
from millpond.synopses.pane_partials import carried_by, group_codes
from millpond.synopses.partials.late_exclusions import CUT
from millpond.synopses.partials.specs import joined_stream
from millpond.tables import read_chunks
from millpond.types import StreamDefinition
from millpond.types.durations import duration
from millpond.types.plan_nodes import Fact, PlanNode, said
from millpond.windows import Panes

#: Groups that are named.
SHOWN = 5


def state_plan(facts: PlanFacts, synopsis: Synopsis, spec: PanesSpec, asked: str) -> PlanNode:
    """Groups and bytes of each form of a synopsis, as the state files hold them now.

    Args:
        spec: of the synopsis. asked: the form that the query asks for which is explained.
    """
    stream = facts.catalog.streams[spec.stream]
    head = f"state: {spec.form}"
    if asked != spec.form:
        head += f" ('{asked}' is for aggregates of bare columns, over windows that do not grow)"
    paths = [os.path.join(state_folder(facts.pond), s.path) for s in facts.state]
    tables = [
        c.table.drop_columns([CUT]) if CUT in c.table.column_names else c.table
        for c in read_chunks(paths, {synopsis.owner}, lambda _o, kind, _e, _l, _h: kind in (PANES, TUPLES))
    ]
    tables = [t for t in tables if t.num_rows]
    if not tables:
        return PlanNode("state", f"{head}; nothing is kept")
    db = connection()
    partials, tuples = [t for t in tables if not are_tuples(t)], [t for t in tables if are_tuples(t)]
    whole = merge_partials(db, spec, [as_partials(db, spec, t) for t in tables])
    lazy, eager = _groups(spec, tuples, partials)
    held = [sum(t.nbytes for t in part) for part in (partials, tuples)]
    groups = (
        f"{head}; groups: {len(eager - lazy)} as partials, {len(lazy - eager)} as tuples,"
        f" {len(eager & lazy)} in transition (both)"
    )
    found = [
        Fact("bytes", f"{sum(held)} (partials {held[0]}, tuples {held[1]})"),
        Fact("all as partials", f"{whole.nbytes} bytes"),
        *_adaptive(facts, synopsis, spec),
    ]
    width = _tuple_bytes(spec, joined_stream(stream, spec.lookup), whole)
    if width is not None:
        found.append(Fact("all as tuples", f"about {width * pc.sum(whole['n']).as_py()} bytes"))
    return PlanNode("state", groups, tuple(found))


def _adaptive(facts: PlanFacts, synopsis: Synopsis, spec: PanesSpec) -> list[Fact]:
    """The condition by which groups are chosen, and which groups it has made eager."""
    catalog, published = facts.catalog, facts.published
    known = progress_of(catalog, spec, published.progress)
    condition = current(connection(), catalog, synopsis, known)
    low = first_open(synopsis, catalog, published.queries, Failures(catalog, "EXPLAIN"))
    if condition is None or low is None:
        return []
    since = spec.panes.start(low)
    latest = recorded(facts.pond, facts.state, synopsis.owner, since).latest(connection(), spec, since)
    eager = latest.filter(latest["eager"]) if latest.num_rows else latest
    lasts = (
        f"an extent lasts {duration(condition.wed)}" if isinstance(spec.panes, Panes) else f"{condition.wed} are open"
    )
    rule = (
        f"a group is eager from {condition.upper:.1f} active tuples on, and goes back below {condition.lower:.1f}:"
        f" a partial has {condition.aggr} bytes, a tuple {condition.tup}, {lasts}"
    )
    found = [said("rule", rule)]
    if spec.feeds:
        highs = [published.progress.get(str(s.id), StreamProgress()).high for s in streams_of(catalog, spec)]
        shown = [
            f"{f.name} {duration(max(highs) - high) if high > NEVER else 'without rows'}"
            for f, high in zip(spec.feeds, highs, strict=True)
        ]
        found.append(Fact("offsets of sources behind the furthest", ", ".join(shown)))
    names = list(spec.key_names) if eager.num_rows else []
    some = [", ".join(map(str, row.values())) for row in eager.select(names).slice(0, SHOWN).to_pylist() if names]
    more = f" and {eager.num_rows - SHOWN} more" if eager.num_rows > SHOWN else ""
    return [
        *found,
        Fact("eager now", f"{eager.num_rows} groups" + (f": {'; '.join(sorted(some))}{more}" if some else "")),
    ]


def _groups(spec: PanesSpec, tuples: list[pa.Table], partials: list[pa.Table]) -> tuple[set[int], set[int]]:
    """The groups that have tuples, and those that have partials, as codes."""
    names = list(spec.key_names) or ["pane"]
    keys = pa.concat_tables([t.select(names) for t in (*tuples, *partials)], promote_options="permissive")
    codes = group_codes(connection(), spec, keys)
    at = sum(t.num_rows for t in tuples)
    return set(distinct(codes[:at]).tolist()), set(distinct(codes[at:]).tolist())


def _tuple_bytes(spec: PanesSpec, stream: StreamDefinition, partials: pa.Table) -> int | None:
    """Bytes of a tuple of the synopsis; None when none could stand for a partial."""
    carried = carried_by(spec, stream)
    if carried is None:
        return None
    schema = row_schema(stream)
    kinds = {quote(f.name): f for f in schema}
    fields = [partials.schema.field(n) for n in ("pane", *spec.key_names)]
    fields += [kinds.get(c, pa.field(f"x{i}", pa.int64())).with_name(f"x{i}") for i, c in enumerate(carried)]
    return row_bytes(pa.schema(fields))
