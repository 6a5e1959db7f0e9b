"""Random window queries over the random stream."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.oracle import Case

#: Aggregates by how hard they are on an engine; each must be answerable exactly, or to 1e-9.
BOUNDED = (
    "count(*)", "count(v)", "count(k)", "sum(n)", "sum(d)", "sum(v)", "sum(g)", "avg(v)", "avg(g)", "avg(d)", "min(v)",
    "max(v)", "min(k)", "max(k)", "min(n)", "max(d)", "bool_and(b)", "bool_or(b)", "stddev(v)", "stddev_pop(v)",
    "variance(v)", "var_pop(g)", "covar_pop(v, g)", "covar_samp(v, g)", "min(ts)", "max(ts)",
    "bit_and(g)", "bit_or(n)", "bit_xor(g)", "regr_count(v, g)", "regr_sxy(v, g)",
)  # fmt: skip
HOLISTIC = (
    "count(DISTINCT k)", "count(DISTINCT v)", "sum(DISTINCT g)", "avg(DISTINCT g)", "median(v)", "median(g)",
    "quantile_cont(v, 0.25)", "quantile_disc(g, 0.5)", "list(DISTINCT g ORDER BY g)",
)  # fmt: skip
ORDERED = ("first(k)", "last(v)", "first(n)", "last(b)", "list(g)", "string_agg(k, '-')", "list(k ORDER BY n)")
FILTERS = ("", "", "", " FILTER (WHERE g > 0)", " FILTER (WHERE v IS NULL)", " FILTER (WHERE b)")
EXPRESSIONS = (
    "sum(g) + count(*)", "max(v) - min(v)", "coalesce(sum(n), 0)", "sum(v) / count(v)", "round(avg(g), 2)",
    "CASE WHEN count(*) > 2 THEN 'many' ELSE 'few' END", "count(*) FILTER (WHERE b) * 1.5",
    "window_end",
)  # fmt: skip
KEYS = ("k", "g", "b", "upper(k)", "g % 2", "n")
WHERES = ("g > 0", "v IS NOT NULL", "k IN ('a', 'b')", "b OR g = 1", "n % 2 = 0", "k = 'nowhere'")
HAVINGS = ("count(*) > 1", "sum(g) > 0", "max(g) IS NOT NULL", "count(DISTINCT k) = 1")

#: Aggregates that a NaN does not make ill-defined.
NAN_SAFE = ("count(*)", "count(v)", "min(v)", "max(v)", "first(v)", "last(v)", "count(DISTINCT v)", "sum(v)", "avg(v)")

#: Aggregates whose answers are the same to the last bit in whatever order parts are added up.
EXACT = (
    "count(*)", "count(v)", "count(k)", "sum(n)", "sum(d)", "sum(g)", "avg(g)", "min(v)", "max(v)", "min(k)", "max(n)",
    "bool_or(b)", "bit_xor(g)", "count(DISTINCT k)", "sum(DISTINCT g)", "median(g)", "first(k)", "last(v)", "list(g)",
    "string_agg(k, '-')",
)  # fmt: skip


@st.composite
def windows(draw: st.DrawFn, unit: int) -> dict[str, Any]:
    """RANGE, SLIDE, ORIGIN, ALIGN in the stream's unit: tumbling, sliding, uneven, with gaps."""
    size = draw(st.integers(1, 12)) * unit
    slide = draw(st.sampled_from([size, unit, draw(st.integers(1, 15)) * unit]))
    origin = draw(st.sampled_from([0, 0, 0, 3 * unit, -7 * unit - 1, 1]))
    return {"range_us": size, "slide_us": slide, "origin_us": origin, "align_start": draw(st.booleans())}


@st.composite
def aggregates(draw: st.DrawFn, pool: tuple[str, ...]) -> str:
    """One aggregate call, perhaps with a FILTER."""
    return draw(st.sampled_from(pool)) + draw(st.sampled_from(FILTERS))


@st.composite
def cases(
    draw: st.DrawFn,
    unit: int,
    pool: tuple[str, ...] = BOUNDED + HOLISTIC + ORDERED,
    limits: bool = True,
    extra: bool = True,
) -> Case:
    """A window query. pool: its aggregates; extra: also expressions over aggregates; limits: also ORDER BY … LIMIT."""
    keys = tuple(draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True)))
    calls = draw(st.lists(aggregates(pool), min_size=1, max_size=4))
    if extra and draw(st.integers(0, 3)) == 0:
        calls.append(draw(st.sampled_from(EXPRESSIONS)))
    shown = draw(st.permutations([*keys, *calls])) if draw(st.booleans()) else [*keys, *calls]
    select = tuple(f"{item} AS c{i}" for i, item in enumerate(shown))
    having = draw(st.sampled_from([None, None, None, *HAVINGS]))
    order, limit = (), None
    if limits and keys and draw(st.integers(0, 4)) == 0:
        # A total order, so that LIMIT has one answer.
        order = tuple(f"{k} {draw(st.sampled_from(['ASC', 'DESC']))} NULLS LAST" for k in keys)
        limit = draw(st.integers(1, 3))
    return Case(
        select,
        where=draw(st.sampled_from([None, None, *WHERES])),
        group_by=keys,
        having=having,
        order_by=order,
        limit=limit,
        **draw(windows(unit)),
    )
