"""The columns by which a reduced answer says how good it is.

Every aggregate becomes its estimate over all rows. Behind the SELECT list come `<name>_low` and `<name>_high` of each
output that is a count, a sum or an average: its 95 % interval; `<name>_bound` of each that is a minimum, a maximum or a
count of distinct values: on which side of the answer the truth lies; then `fraction` (which share of the rows was read)
and `small` (few rows were read, so that intervals are rough). Rows without groups have `fraction` alone.
"""

from __future__ import annotations

from dataclasses import replace

from millpond.types import EXACT, WEIGHT, Aggregate, Expression, Output, Reduction, ScanQuery, WindowedQuery
from millpond.types.reduction_forms import SMALL

#: Aggregates that have an interval.
INTERVALS = ("count", "count_star", "sum", "avg")

#: On which side of what rows that were read say the truth lies.
BOUNDS = {"min": "<=", "max": ">=", "bool_and": "<=", "bool_or": ">="}


def with_fidelity(query: WindowedQuery | ScanQuery, reduction: Reduction) -> WindowedQuery | ScanQuery:
    """A reduced query with its estimates and the columns that tell their fidelity; a summarised one as it is."""
    if not reduction.samples:
        return query
    taken = {o.name.lower() for o in query.select} | {EXACT}
    if not query.of_groups:
        share = Output(_free("fraction", taken), Expression.column_of(WEIGHT).within("(1 / ", ")", "DOUBLE"))
        return replace(query, select=(*query.select, share))
    aggregates = [replace(a, measure="estimate") for a in query.aggregates]
    by_name = {a.name: a for a in aggregates}
    added: list[Output] = []

    def measured(of: Aggregate, measure: str, kind: str = "DOUBLE") -> Expression:
        name = f"a{len(aggregates)}"
        aggregates.append(replace(of, name=name, measure=measure, type=kind))  # type: ignore[arg-type]  # a measure
        return Expression.column_of(name, kind)

    for output in query.select:
        found = by_name.get(output.expression.column or "")
        if found is None:
            continue
        if found.function in INTERVALS and not found.distinct:
            for end in ("low", "high"):
                added.append(Output(_free(f"{output.name}_{end}", taken), measured(found, end)))
        elif (side := bound_of(found)) is not None:
            added.append(Output(_free(f"{output.name}_bound", taken), Expression(f"'{side}'", type="VARCHAR")))
    rows = Aggregate("", "count_star")
    added.append(Output(_free("fraction", taken), measured(rows, "share")))
    few = measured(rows, "read", "BIGINT").within("(", f" < {SMALL})", "BOOLEAN")
    added.append(Output(_free("small", taken), few))
    return replace(query, aggregates=tuple(aggregates), select=(*query.select, *added))


def bound_of(aggregate: Aggregate) -> str | None:
    """'<=' when the truth is at most what the rows that were read say, '>=' when it is at least that; else None."""
    if aggregate.function in BOUNDS:
        return BOUNDS[aggregate.function]
    distinct = aggregate.function == "count" and aggregate.distinct
    return ">=" if distinct or aggregate.function == "approx_distinct" else None


def _free(wanted: str, taken: set[str]) -> str:
    """A name that no other column has, which is taken then."""
    name, count = wanted, 0
    while name.lower() in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken.add(name.lower())
    return name
