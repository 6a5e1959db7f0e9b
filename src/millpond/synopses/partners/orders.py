"""Rows sorted by key: those with equal keys stand side by side, ordered by a value among themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

#: Odd, so that multiplying by it loses nothing; the upper bits of the product depend on all bits (Knuth, 6.4).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class KeyOrder:
    """Rows that have a key, sorted by its code, those with the same code by a value.

    codes: ascending. places: which row each is of. values: ascending among equal codes. directory: of the upper bits of
    a code (all but `shift`), where those codes begin. exact: equal codes are equal keys. kinds: the types of the keys,
    which must be those of the other side.
    """

    codes: Words
    places: Places
    values: Ints
    directory: Places
    shift: int
    exact: bool = True
    kinds: tuple[str, ...] = ()

    def only(self, mask: Mask) -> KeyOrder:
        """Without some rows, the others numbered anew. mask: by row, whether it stays."""
        left, number = mask[self.places], np.cumsum(mask) - 1
        places = number[self.places[left]]
        return key_order(self.codes[left], places, self.values[left], self.exact, self.kinds, is_sorted=True)

    def before(self, other: KeyOrder, start: int) -> KeyOrder:
        """Both, when no value of the other is smaller than one of this. start: the number of the other's first row."""
        # Two sorted stretches one behind the other: a stable sort merges them.
        codes, values = np.concatenate([self.codes, other.codes]), np.concatenate([self.values, other.values])
        places = np.concatenate([self.places.astype(np.int64), other.places.astype(np.int64) + start])
        return key_order(codes, places, values, self.exact, self.kinds)


def key_order(
    codes: Words, places: Ints, values: Ints, exact: bool = True, kinds: tuple[str, ...] = (), is_sorted: bool = False
) -> KeyOrder:
    """Rows sorted by key.

    Args:
        codes: of each row, spread over all 64 bits; all the same: there is no key.
        places: which row each is of.
        values: of each, ascending among equal codes.
        exact, kinds: as of `KeyOrder`.
        is_sorted: they are already.
    """
    if not is_sorted:
        order = np.argsort(codes, kind="stable")
        codes, places, values = codes[order], places[order], values[order]
    several = len(codes) > 0 and codes[0] != codes[-1]
    bits = max(1, min(30, len(codes).bit_length() - 1)) if several else 1
    shift = 64 - bits
    counts = np.bincount((codes >> np.uint64(shift)).astype(np.int64), minlength=1 << bits)
    directory = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]).astype(np.int32)
    return KeyOrder(codes, places.astype(np.int32), values, directory, shift, exact, kinds)


def spread_codes(values: Ints) -> Words:
    """Whole numbers as codes whose upper bits depend on all of their bits; different ones stay different."""
    return values.astype(np.uint64) * _SPREAD


def no_codes(count: int) -> Words:
    """The codes of rows that have no key, and are told apart by their values alone."""
    return np.zeros(count, np.uint64)
