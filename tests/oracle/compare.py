"""Equality of answers: exact for integers, decimals and text; floats to 1e-9 relative, with a floor where asked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

RELATIVE = 1e-9


def normal(value: Any) -> Any:
    """A value in the one form in which it is compared: whole decimals are integers, times are microseconds."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else value.normalize()
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
        return ["time", (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds]
    if isinstance(value, (list, tuple)):
        return [normal(v) for v in value]
    if isinstance(value, dict):
        return {k: normal(v) for k, v in value.items()}
    return value


def values_equal(one: Any, other: Any, floor: float = 0.0) -> bool:
    """Whether two values are equal; NaN equals NaN; `floor`: absolute difference of floats that is always allowed."""
    one, other = normal(one), normal(other)
    if isinstance(one, float) or isinstance(other, float):
        if not isinstance(one, (int, float, Decimal)) or not isinstance(other, (int, float, Decimal)):
            return False
        one, other = float(one), float(other)
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        if math.isinf(one) or math.isinf(other):
            return one == other
        return math.isclose(one, other, rel_tol=RELATIVE, abs_tol=floor)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(values_equal(a, b, floor) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(values_equal(v, other[k], floor) for k, v in one.items())
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    return bool(one == other)


def rows_equal(one: Sequence[Any], other: Sequence[Any], floor: float = 0.0) -> bool:
    """Whether two rows are equal value by value."""
    return len(one) == len(other) and all(values_equal(a, b, floor) for a, b in zip(one, other, strict=True))


def sort_key(row: Sequence[Any]) -> tuple[Any, ...]:
    """An order of rows in which equal rows meet: floats rounded, NULL first, NaN last."""
    return tuple(_key(v) for v in row)


def _key(value: Any) -> tuple[Any, ...]:
    value = normal(value)
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, int(value))
    if isinstance(value, (int, float, Decimal)):
        number = float(value)
        return (4,) if math.isnan(number) else (2, float(f"{number:.7g}"))
    return (3, repr(value))


def matched(one: Iterable[Sequence[Any]], other: Iterable[Sequence[Any]], floor: float = 0.0) -> bool:
    """Whether two bags of rows are equal, floats within tolerance."""
    left, right = sorted(one, key=sort_key), sorted(other, key=sort_key)
    if len(left) != len(right):
        return False
    if all(rows_equal(a, b, floor) for a, b in zip(left, right, strict=True)):
        return True
    # Rounding may have put equal rows apart: match them one by one.
    rest = list(right)
    for row in left:
        found = next((i for i, r in enumerate(rest) if rows_equal(row, r, floor)), None)
        if found is None:
            return False
        del rest[found]
    return True


def assert_rows_equal(
    expected: Sequence[Sequence[Any]],
    got: Sequence[Sequence[Any]],
    ordered: bool = False,
    floor: float = 0.0,
    what: str = "",
) -> None:
    """AssertionError with the rows that are on one side only, unless the answers are equal."""
    same = (
        len(expected) == len(got) and all(rows_equal(a, b, floor) for a, b in zip(expected, got, strict=True))
        if ordered
        else matched(expected, got, floor)
    )
    if same:
        return
    missing, rest = [], list(got)
    for row in expected:
        found = next((i for i, r in enumerate(rest) if rows_equal(row, r, floor)), None)
        if found is None:
            missing.append(row)
        else:
            del rest[found]
    lines = [f"answers differ{': ' + what if what else ''} ({len(expected)} expected, {len(got)} got)"]
    lines += [f"  - {tuple(map(normal, r))}" for r in missing[:20]] + [
        f"  + {tuple(map(normal, r))}" for r in rest[:20]
    ]
    if not missing and not rest:
        lines.append(f"  same rows in another order:\n  - {list(expected)[:20]}\n  + {list(got)[:20]}")
    raise AssertionError("\n".join(lines))
