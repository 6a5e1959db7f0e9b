"""One JSON array of objects, as the lines of NDJSON that its items are: found by their brackets, without parsing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: Bytes that are looked at together; what is made of them takes some ten times as many.
_PIECE: Final = 8 << 20
_QUOTE, _BACKSLASH, _COMMA, _NEWLINE, _RETURN = b'"\\,\n\r'
_OPENS, _CLOSES = b"[{", b"]}"
_MARKS: Final = np.isin(np.arange(256), list(b'"\\[]{},\n\r'))
_BLANKS: Final = b" \t\r\n"

Places = npt.NDArray[np.int64]


def is_array(data: bytes) -> bool:
    """Whether a text begins like a JSON array.

    >>> is_array(b" [1]"), is_array(b"{}")
    (True, False)
    """
    return data[:4096].lstrip(_BLANKS).startswith(b"[")


@dataclass(frozen=True)
class Items:
    """The items of an array. text: with a line each; lines: these. ended: it has an end, and nothing behind it.

    more: something stands behind its end.
    """

    text: bytes
    lines: pa.Array
    ended: bool
    more: bool = False


def items_of(data: bytes, part: bool = False) -> Items:
    """The items of a text that begins like an array.

    Args:
        part: what there is may be the beginning of one: an item that is cut off is left out.

    >>> items_of(b'[{"a": "x,]"},\\n {"a": [1,2]}]').lines.to_pylist()
    [b' {"a": "x,]"}\\n', b'  {"a": [1,2]} ']
    """
    found = _Scan(data).over()
    text, ends = found.text, np.concatenate([np.empty(0, np.int64), *found.commas])
    close = found.close
    if close < 0:
        last = int(ends[-1]) + 1 if len(ends) else 0
        text = text[:last] if part else text
    else:
        text[close:] = _BLANKS[0]
    edges = np.concatenate([[0], ends + 1, [] if close < 0 and part and len(ends) else [len(text)]]).astype(np.int64)
    if not bytes(text[edges[-2] : edges[-1]]).strip(_BLANKS):  # nothing behind the last comma, or at all
        edges = edges[:-1]
    whole = text.tobytes()
    lines = pa.Array.from_buffers(
        pa.large_binary(), max(0, len(edges) - 1), [None, pa.py_buffer(edges), pa.py_buffer(whole)]
    )
    behind = close >= 0 and bool(data[close + 1 :].strip(_BLANKS))
    return Items(whole[: int(edges[-1])], lines, close >= 0 and not behind, behind)


@dataclass
class _Scan:
    """Goes through a text piece by piece.

    text: its bytes, in which commas between items are ends of lines, and other ends of lines are blanks. commas: where
    these stand. close: where the array ends; -1: nowhere so far.
    """

    data: bytes
    commas: list[Places] = field(default_factory=list)
    close: int = -1

    def __post_init__(self) -> None:
        self.text = np.frombuffer(self.data, np.uint8).copy()
        self.inside = 0  # a string, across pieces
        self.depth = 0

    def over(self) -> _Scan:
        """The whole text."""
        at = 0
        while at < len(self.data) and self.close < 0:
            end = min(at + _PIECE, len(self.data))
            while end < len(self.data) and self.data[end - 1] == _BACKSLASH:
                end += 1
            self.piece(at, end)
            at = end
        self.text[: self.data.index(b"[") + 1] = _BLANKS[0]
        return self

    def piece(self, start: int, end: int) -> None:
        """A piece of it, which does not end with a backslash."""
        piece = np.frombuffer(self.data, np.uint8)[start:end]
        at = np.flatnonzero(_MARKS[piece])
        what = piece[at]
        is_quote = what == _QUOTE
        is_quote[is_quote] = ~_escaped(at[is_quote], at[what == _BACKSLASH])
        strings = (np.cumsum(is_quote) + self.inside) % 2
        outside = (strings == 0) & ~is_quote
        steps = np.isin(what, list(_OPENS)).astype(np.int64) - np.isin(what, list(_CLOSES)).astype(np.int64)
        depth = np.cumsum(np.where(outside, steps, 0)) + self.depth
        closed = np.flatnonzero(outside & (steps < 0) & (depth == 0))
        until = int(closed[0]) if len(closed) else len(at)
        outside[until:] = False
        commas = at[outside & (what == _COMMA) & (depth == 1)] + start
        breaks = at[outside & ((what == _NEWLINE) | (what == _RETURN))] + start
        self.text[breaks] = _BLANKS[0]
        self.text[commas] = _NEWLINE
        self.commas.append(commas)
        if len(closed):
            self.close = int(at[until]) + start
        elif len(at):
            self.inside, self.depth = int(strings[-1]), int(depth[-1])


def _escaped(quotes: Places, slashes: Places) -> npt.NDArray[np.bool_]:
    """Which quotes stand behind an odd number of backslashes."""
    if not len(slashes):
        return np.zeros(len(quotes), bool)
    first = np.concatenate([[True], np.diff(slashes) != 1])
    starts = np.maximum.accumulate(np.where(first, slashes, 0))
    before = np.searchsorted(slashes, quotes) - 1
    there = (before >= 0) & (slashes[before] == quotes - 1)
    found: npt.NDArray[np.bool_] = there & ((quotes - starts[before]) % 2 == 1)
    return found


__all__ = ["Items", "is_array", "items_of"]
