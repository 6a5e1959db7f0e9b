"""Registered aggregates whose states merge: rows are added to a state, states are merged, the last one is finished.

A state is what Python's `json` writes, or bytes; engines keep it as bytes of its own.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, Protocol, cast

import pyarrow as pa

from millpond.functions.calling import Call, over_arrays

#: Bytes that a state may have.
STATE_LIMIT = 65_536


class Mergeable(Protocol):
    """An aggregate whose states merge. Neither the order of rows nor how they are cut may make a difference."""

    def add(self, *columns: pa.Array) -> Any:
        """The state of some rows of a group, one at least: an array for each argument, of one length."""

    def merge(self, one: Any, other: Any) -> Any:
        """The state of all rows that two states are of."""

    def finish(self, state: Any) -> Any:
        """The answer."""


def made(function: Any) -> Mergeable:
    """The aggregate: itself, or an object of its class."""
    found: Any = function() if inspect.isclass(function) else function
    return cast(Mergeable, found)


def lacks(function: Any) -> list[str]:
    """What an aggregate has to have, and has not."""
    return [name for name in ("add", "merge", "finish") if not callable(getattr(function, name, None))]


def adding(name: str, function: Any) -> Call:
    """Over a list of values for each argument and group: the states, as bytes."""
    return over_arrays(name, partial(_added, made(function)), True, pa.binary())


def finishing(name: str, function: Any, returns: pa.DataType) -> Call:
    """Over lists of states: the answers; NULL where there is no state."""
    return over_arrays(name, partial(_finished, made(function)), True, returns)


def merging(name: str, function: Any) -> Call:
    """Over lists of states: lists of the one that they are together."""
    return over_arrays(name, partial(_put_together, made(function)), True, pa.list_(pa.binary()))


def _added(aggregate: Mergeable, *lists: pa.ListArray) -> list[bytes]:
    bounds = [each.offsets.to_pylist() for each in lists]
    columns = [each.values for each in lists]
    return [
        _written(aggregate.add(*(c.slice(b[n], b[n + 1] - b[n]) for c, b in zip(columns, bounds, strict=True))))
        for n in range(len(lists[0]))
    ]


def _finished(aggregate: Mergeable, lists: pa.ListArray) -> list[Any]:
    merged = [_merged(aggregate, states) for states in lists.to_pylist()]
    return [None if state is None else aggregate.finish(_read(state)) for state in merged]


def _put_together(aggregate: Mergeable, lists: pa.ListArray) -> list[list[bytes] | None]:
    return [None if state is None else [state] for state in (_merged(aggregate, s) for s in lists.to_pylist())]


def _merged(aggregate: Mergeable, states: Sequence[bytes | None]) -> bytes | None:
    """One state of several, whose order makes no difference; None of none."""
    some = sorted(s for s in states if s is not None)
    if len(some) < 2:
        return some[0] if some else None
    return _written(reduce(aggregate.merge, map(_read, some)))


def _written(state: Any) -> bytes:
    """A state as it is kept.

    >>> _written({"n": 1}), _read(_written(b"x"))
    (b'j{"n":1}', b'x')
    """
    kept = b"b" + state if isinstance(state, bytes) else b"j" + json.dumps(state, separators=(",", ":")).encode()
    if len(kept) > STATE_LIMIT:
        raise ValueError(f"a state has {len(kept)} bytes; at most {STATE_LIMIT} are kept")
    return kept


def stored(state: Any) -> Any:
    """A state as it comes back from where it is kept. Raises: TypeError, ValueError where it cannot be."""
    return _read(_written(state))


def _read(kept: bytes) -> Any:
    return kept[1:] if kept[:1] == b"b" else json.loads(kept[1:])


__all__ = ["STATE_LIMIT", "Mergeable", "adding", "finishing", "lacks", "made", "merging", "stored"]
