"""Which queries can report windows without a row, and fill them."""

from __future__ import annotations

from collections.abc import Sequence

from millpond.support.errors import Refusal
from millpond.synopses.gap_filling import fill_columns, is_number
from millpond.types import KindWindow, QueryOptions, StreamDefinition, WindowQuery
from millpond.types.options.value_kinds import NUMBERS_ONLY, fills_of
from millpond.windows import Cover


def check_gaps(query: WindowQuery, options: QueryOptions, streams: Sequence[StreamDefinition], cover: Cover) -> None:
    """Raises: Refusal where a query cannot have `empty`, `known_for` or `fill` as they are."""
    if options.empty != "report":
        return
    if cover.grows:
        raise Refusal(
            "a window that grows reports every window since a group's first row by itself: leave empty='report' out",
            "empty",
        )
    if query.keys and cover.varies:
        raise Refusal(
            "empty='report' does not go with GROUP BY where windows differ in length, as months that slide by days do",
            "empty",
        )
    if options.known_for is not None and not query.keys and options.fill is None:
        raise Refusal(
            "'known_for' is for groups, and for what fills windows: without GROUP BY all are reported", "known_for"
        )
    if options.fill is not None:
        _check_fill(query, options.fill)
    if options.ahead:
        _check_ahead(query, options, streams)


def _check_ahead(query: WindowQuery, options: QueryOptions, streams: Sequence[StreamDefinition]) -> None:
    """Windows on lines wait for those behind them: nothing may be final, or be answered, before these are."""
    if isinstance(query.window, KindWindow):
        raise Refusal("fill='linear' is for windows of time and of a calendar", "fill", expected="previous")
    if options.flush != "at once":
        raise Refusal(f"fill='linear' does not go with flush='{options.flush}'", "flush")
    if query.distinct or query.limit is not None or query.offset:
        raise Refusal(
            "fill='linear' does not go with DISTINCT and LIMIT: they are about all groups of a window, and each"
            " of these is known when its next row is", "fill", expected="previous",
        )  # fmt: skip
    if options.limited:
        raise Refusal("fill='linear' does not go with beyond='drop' and final answers alone", "fill")
    if (marked := next((s.name for s in streams if s.options.marks_by is not None), None)) is not None:
        raise Refusal(f"fill='linear' is not available over {marked}, whose groups have bounds of their own", "fill")


def _check_fill(query: WindowQuery, fill: str) -> None:
    columns = {o.name.lower(): o for _, o in fill_columns(query)}
    for name, word in fills_of(fill).items():
        if name and name not in columns:
            known = ", ".join(o.name for o in columns.values())
            raise Refusal(f"'fill' names '{name}', which is no column with an aggregate", "fill", expected=known)
        if name and word in NUMBERS_ONLY and not is_number(columns[name].type):
            raise Refusal(f"{name} is a {columns[name].type}, and {word} fills numbers", "fill", expected="previous")


__all__ = ["check_gaps"]
