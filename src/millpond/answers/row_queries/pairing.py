"""Set-at-a-time probing: which pairs of keys satisfy `left op right`, for many left keys at once (P7).

PSoup substitutes a tuple's values into a query's join factor and probes the other stream with the results. Values that
came from one query and many tuples are probed as one join. Everything here is a pure function on numpy arrays over the
kernel of joins (`millpond.synopses.partners`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from millpond.synopses.partners.finding import LEAST, MOST, Matches, Sought, look_up
from millpond.synopses.partners.orders import Ints, KeyOrder, Mask, key_order, no_codes, spread_codes

Operator = Literal["=", "<", "<=", ">", ">="]

_MIRRORED: dict[str, Operator] = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def mirrored(operator: Operator) -> Operator:
    """The operator of `right op left` that says the same as `left op right`.

    >>> mirrored("<=")
    '>='
    """
    return _MIRRORED[operator]


@dataclass(frozen=True)
class Index:
    """Stored rows sorted by a number that stands for their key, for comparisons by one operator or by its mirror.

    Rows whose key is NULL are left out.
    """

    operator: Operator
    order: KeyOrder

    @staticmethod
    def of(operator: Operator, numbers: Ints, rows: Ints | None = None) -> Index:
        """The index of numbers whose rows are 0, 1, … or as given.

        >>> Index.of("<", np.array([7, 3, 5])).order.places.tolist()
        [1, 2, 0]
        """
        rows = np.arange(len(numbers)) if rows is None else rows
        if operator == "=":  # equal ones stand side by side, whatever their order
            return Index(operator, key_order(spread_codes(numbers), rows, np.zeros(len(rows), np.int64)))
        order = np.argsort(numbers, kind="stable")
        return Index(operator, key_order(no_codes(len(rows)), rows[order], numbers[order], is_sorted=True))

    def only(self, keep: Mask) -> Index:
        """Only the rows for which `keep` (by row number) holds, the others numbered anew."""
        return Index(self.operator, self.order.only(keep))

    def merged(self, other: Index) -> Index:
        """Both as one index; cheap when `other` is small."""
        codes, values, places = (
            np.concatenate([getattr(i.order, name) for i in (self, other)]) for name in ("codes", "values", "places")
        )
        if self.operator != "=":
            order = np.argsort(values, kind="stable")
            values, places = values[order], places[order]
        return Index(self.operator, key_order(codes, places, values, is_sorted=self.operator != "="))

    def partners(self, numbers: Ints, operator: Operator | None = None) -> Matches:
        """The stored rows with `number op key`, for each number; operator: that of the index, or its mirror."""
        if self.operator == "=":
            codes, low, high = spread_codes(numbers), np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64)
        else:
            codes = no_codes(len(numbers))
            low, high = _band(operator or self.operator, np.asarray(numbers, np.int64))
        return look_up([Sought(self.order)], codes, low, high)


def _band(operator: Operator, numbers: Ints) -> tuple[Ints, Ints]:
    """Between what keys lie, both included, that are compared so with each number."""
    least, most = np.full(len(numbers), LEAST), np.full(len(numbers), MOST)
    if operator in ("<", "<="):
        if operator == "<":  # behind the largest number nothing lies
            most[numbers == MOST] = LEAST
            numbers = np.where(numbers == MOST, numbers, numbers + 1)
        return numbers, most
    if operator == ">":
        least[numbers == LEAST] = MOST
        numbers = np.where(numbers == LEAST, numbers, numbers - 1)
    return least, numbers
