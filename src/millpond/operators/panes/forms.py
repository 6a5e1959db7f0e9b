"""The two forms of pane rows: partials, and the tuples themselves where they are smaller (decision 0026).

A pane of a group is one partial, or a row per tuple with the columns that the components read (Li 2008, section 6.4.3:
adapt the tumbling pane level). Partial tables have the column `n`, tuple tables have not; their columns are pane, k*,
perhaps `cut`, and x0, x1, … for `PanesSpec.carried`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from millpond.support.distinct import is_among
from millpond.synopses import PanesSpec
from millpond.synopses.enums import query_ordered
from millpond.synopses.kernel import query_table
from millpond.synopses.pane_partials import bucketed, group_codes
from millpond.synopses.partials.late_exclusions import CUT, merge_cuts
from millpond.types import Expression

TUPLES = "tuples"

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Forms:
    """Pane rows in both forms. No pane of a group is in both tables."""

    partials: pa.Table
    tuples: pa.Table

    @property
    def tables(self) -> list[pa.Table]:
        """Those with rows."""
        return [t for t in (self.partials, self.tuples) if t.num_rows]


def are_tuples(table: pa.Table) -> bool:
    """Whether a table of pane rows holds tuples."""
    return bool(table.num_columns) and "n" not in table.column_names


def tuples_of(db: duckdb.DuckDBPyConnection, spec: PanesSpec, segment: pa.Table, extra: str = "") -> pa.Table:
    """The tuples of a segment as pane rows; see `synopses.partial`, whose arguments these are."""
    segment = bucketed(spec, segment)
    source, pane = spec.paned
    columns = [f"({pane})::BIGINT AS pane"]
    columns += [f"({e}) AS k{i}" for i, e in enumerate(spec.keys)]
    columns += [extra] if extra else []
    columns += [f"{name} AS x{i}" for i, name in enumerate(spec.carried)]
    return query_table(db, f"SELECT {', '.join(columns)} FROM {source}", segment=segment)


def aggregated(db: duckdb.DuckDBPyConnection, spec: PanesSpec, tuples: pa.Table) -> pa.Table:
    """The partials of tuples, one row per pane and group (and cut)."""
    groups = [n for n in ("pane", *spec.key_names, CUT) if n in tuples.column_names]
    inner = [f'{n} AS "__{n}"' for n in groups] + [f"x{i} AS {name}" for i, name in enumerate(spec.carried)]
    names = [n for n in ("pane", *spec.key_names) if n in groups]
    columns = [*(f'"__{n}" AS {n}' for n in names), "count(*)::BIGINT AS n"]
    columns += spec.listed
    columns += [f'"__{CUT}" AS {CUT}'] if CUT in groups else []
    return query_ordered(
        db, f"SELECT {', '.join(columns)} FROM (SELECT {', '.join(inner)} FROM tuples) GROUP BY ALL", tuples=tuples
    )


def as_partials(db: duckdb.DuckDBPyConnection, spec: PanesSpec, table: pa.Table) -> pa.Table:
    """Pane rows of either form as partials."""
    return aggregated(db, spec, table) if are_tuples(table) and table.num_rows else table


def settled(
    db: duckdb.DuckDBPyConnection,
    spec: PanesSpec,
    partials: Sequence[pa.Table],
    tuples: Sequence[pa.Table],
    eager: pa.Table | None = None,
) -> Forms:
    """Pane rows in the form that is smaller: tuples of a pane and group that outweigh a partial become one.

    So do those of which there is a partial already: one more tuple adds nothing to it; and those of groups that are
    eager (given by their keys, see `adapting`).
    """
    table = merge_cuts(db, spec, partials)
    rows = [t for t in tuples if t.num_rows]
    loose = pa.concat_tables(rows, promote_options="permissive") if rows else pa.table({})
    if not loose.num_rows or spec.form == "lazy":
        return Forms(table, loose)
    places, known = _places(db, spec, loose, table)
    _, place, count = np.unique(places, return_inverse=True, return_counts=True)
    heavy = (count[place] > most_tuples(db, spec, loose)) | known | is_in(db, spec, loose, eager)
    if not heavy.any():
        return Forms(table, loose)
    grown = aggregated(db, spec, loose.filter(pa.array(heavy)))
    return Forms(merge_cuts(db, spec, [table, grown]), loose.filter(pa.array(~heavy)))


def is_in(db: duckdb.DuckDBPyConnection, spec: PanesSpec, rows: pa.Table, groups: pa.Table | None) -> NDArray[np.bool_]:
    """Which rows are of some groups, given by their keys."""
    if groups is None or not groups.num_rows or not rows.num_rows:
        return np.zeros(rows.num_rows, bool)
    mine, theirs = codes_of(db, spec, [rows, groups])
    return is_among(mine, theirs)


def codes_of(db: duckdb.DuckDBPyConnection, spec: PanesSpec, tables: Sequence[pa.Table]) -> list[Ints]:
    """The group of each row of several tables, as numbers that mean the same in all."""
    counts = [t.num_rows for t in tables]
    some = [t.select(list(spec.key_names)) for t in tables if t.num_rows]
    if not spec.keys or not some:
        return [np.zeros(n, np.int64) for n in counts]
    codes = group_codes(db, spec, pa.concat_tables(some, promote_options="permissive"))
    ends = np.cumsum(counts)
    return [codes[end - count : end] for end, count in zip(ends, counts, strict=True)]


def most_tuples(db: duckdb.DuckDBPyConnection, spec: PanesSpec, tuples: pa.Table) -> int:
    """How many tuples of a pane and group weigh no more than its partial: condition (6.9) for a tumbling window."""
    empty = tuples.slice(0, 0)
    partial, own = row_bytes(aggregated(db, spec, empty).schema), row_bytes(tuples.schema)
    most = partial // own
    return min(most, 1) if keeps_lists(spec) else most


def keeps_lists(spec: PanesSpec) -> bool:
    """Whether a partial keeps values, in an order."""
    return any(c.kind in ("list", "set") for c in spec.components)


def row_bytes(schema: pa.Schema) -> int:
    """Bytes of a row as Arrow lays it out; texts and lists by what they have at least."""
    return sum(_width(field.type) for field in schema if field.name != CUT)


def _width(kind: pa.DataType) -> int:
    if pa.types.is_struct(kind):
        return sum(_width(kind.field(i).type) for i in range(kind.num_fields))
    if pa.types.is_boolean(kind):
        return 1
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:  # of no fixed width: an offset, and something
        return 12


def _places(
    db: duckdb.DuckDBPyConnection, spec: PanesSpec, tuples: pa.Table, partials: pa.Table
) -> tuple[Ints, NDArray[np.bool_]]:
    """A number for the pane, group and cut of each tuple, and which of them have a partial."""
    tables = [tuples, *([partials] if partials.num_rows else [])]
    if any(CUT in t.column_names for t in tables):
        key = f"k{len(spec.keys)}"
        spec = replace(spec, keys=(*spec.keys, Expression(CUT, (CUT,))))
        tables = [
            t.rename_columns([key if n == CUT else n for n in t.column_names])
            if CUT in t.column_names
            else t.append_column(key, pa.nulls(t.num_rows, pa.int64()))
            for t in tables
        ]
    keys = pa.concat_tables([t.select(["pane", *spec.key_names]) for t in tables], promote_options="permissive")
    panes, place = np.unique(keys["pane"].to_numpy(), return_inverse=True)
    places = group_codes(db, spec, keys) * len(panes) + place
    n = tuples.num_rows
    return places[:n], is_among(places[:n], places[n:])
