"""Partials that were made of whole rows, as partials of a synopsis whose rows have weights.

What has weight 1 is aggregated apart (`weighted`), by components that are those of the aggregate without weights over
fewer rows. So the partials of a summary, each of whose rows counts for itself, are theirs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import duckdb
import pyarrow as pa

from millpond.synopses.aggregates.splits import Component
from millpond.synopses.aggregates.splitting import components_of
from millpond.synopses.kernel import query_table
from millpond.synopses.pane_partials import PanesSpec
from millpond.synopses.partials.specs import SynopsisSpec, weighed
from millpond.types import Aggregation

A = TypeVar("A", bound=Aggregation)
S = TypeVar("S", bound=SynopsisSpec)


def unweighed(query: A) -> A:
    """A reduced query as it would be over whole rows, its aggregates in the same order."""
    return replace(query, reduce=None, aggregates=tuple(replace(a, measure="") for a in query.aggregates))


def counterparts(query: Aggregation, time: str) -> dict[str, Component] | None:
    """Of each component over rows of weight 1 (its name) that over whole rows; None where some aggregate has none."""
    found: dict[str, Component] = {}
    for aggregate in query.aggregates:
        measured = components_of(aggregate, time).components
        plain = components_of(replace(aggregate, measure=""), time).components
        if len(measured) < len(plain):
            return None
        for mine, other in zip(measured, plain, strict=False):
            if mine.kind != other.kind or [s for s, _ in mine.columns] != [s for s, _ in other.columns]:
                return None
            found[mine.name] = other
    return found


def plain_spec(spec: S, query: Aggregation) -> S | None:
    """The synopsis with the same groups and panes over whole rows; None where `counterparts` finds none."""
    found = counterparts(query, spec.time)
    if found is None:
        return None
    components = {c.name: c for c in found.values()}
    return replace(spec, reduce=None, components=tuple(components.values()))


def with_weight_one(
    db: duckdb.DuckDBPyConnection, spec: PanesSpec, query: Aggregation, plain: pa.Table, nothing: pa.Table
) -> pa.Table:
    """Partials of `plain_spec` as partials of the synopsis, as if they had been made of rows of weight 1.

    Arguments:
        nothing: a table of the stream without rows: what other components have of rows that stand for nobody else.
    """
    if not plain.num_rows:
        return plain
    found = counterparts(query, spec.time)
    assert found is not None
    others = [each for c in spec.components if c.name not in found for each in c.listed]
    empty = query_table(db, f"SELECT {', '.join(others) or '1'} FROM {spec.source}", segment=weighed(nothing))
    columns = {n: plain[n] for n in plain.column_names if not any(n in c.names for c in found.values())}
    for component in spec.components:
        other = found.get(component.name)
        for at, name in enumerate(component.names):
            if other is None:
                columns[name] = pa.repeat(empty[name][0], plain.num_rows)
            else:
                columns[name] = plain[other.names[at]]
    return pa.table(columns)
