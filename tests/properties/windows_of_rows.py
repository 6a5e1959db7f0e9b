"""Random queries over windows that are made of rows: those that end with rows, and sessions."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from tests.oracle.row_windows import RowCase
from tests.oracle.sessions import SessionCase
from tests.properties.queries import BOUNDED, HOLISTIC, ORDERED, cases


@st.composite
def row_cases(
    draw: st.DrawFn,
    unit: int,
    pool: tuple[str, ...] = BOUNDED + HOLISTIC + ORDERED,
    extra: bool = True,
    form: str | None = None,
) -> RowCase:
    """A query over a window that ends with rows; of the given form, if one is given."""
    case = replace(draw(cases(unit, pool, extra=extra)), range_us=None, slide_us=0, origin_us=0, align_start=False)
    form = form or draw(st.sampled_from(["rows", "partitioned rows", "by tuple"]))
    some: list[tuple[str, ...]] = [("k",), ("g",), ("k", "b")]
    choices = {"rows": [()], "partitioned rows": some, "by tuple": [(), (), *some]}
    partition = draw(st.sampled_from(choices[form]))
    if case.limit is not None:
        # A partition's windows are its own: what is limited are the other groups.
        terms = [t for t in case.order_by if t.split()[0] not in partition]
        case = replace(case, order_by=tuple(terms), limit=case.limit if terms else None)
    made = RowCase(case, slide=draw(st.integers(1, 4)), partition=partition, arrival=draw(st.booleans()))
    if form != "by tuple":
        return replace(made, rows=draw(st.integers(1, 6)))
    return replace(made, range=draw(st.integers(1, 12)) * unit)


@st.composite
def session_cases(
    draw: st.DrawFn, unit: int, pool: tuple[str, ...] = BOUNDED + HOLISTIC + ORDERED, extra: bool = True
) -> SessionCase:
    """A query over sessions: by its keys or by a partition, with a gap or one of each row, bounded or not."""
    case = replace(draw(cases(unit, pool, extra=extra)), range_us=None, slide_us=0, origin_us=0, align_start=False)
    partition = draw(st.sampled_from([(), (), (), ("k",), ("g",), ("k", "b")]))
    if case.limit is not None:
        # A key's sessions are its own: what is limited are the other groups.
        terms = [t for t in case.order_by if partition and t.split()[0] not in partition]
        case = replace(case, order_by=tuple(terms), limit=case.limit if terms else None)
    gap = draw(st.sampled_from([1, 1, 2, 3, 8])) * unit
    longest = draw(st.sampled_from([None, None, 1, 4, 9]))
    spans = draw(st.sampled_from(["", "", f"to_microseconds({gap} * (1 + abs(coalesce(g, 0))))"]))
    return SessionCase(case, 0 if spans else gap, spans, None if longest is None else longest * unit, partition)
