"""A registered Python function as one over Arrow arrays: rows with a NULL argument give NULL, failures say where."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

#: Stands before the traceback in what DuckDB makes of a failure.
FAILED = "registered function "

#: Frames of a traceback that are shown, the innermost.
FRAMES = 4

Call = Callable[..., "pa.Array"]


class UserFunctionError(duckdb.Error):
    """A registered function failed: the message has its name and the traceback as far as it is the function's own.

    A failure of DuckDB, since rows on which an expression fails are treated alike wherever they are met.
    """


#: What a function is told that gave more or fewer values than it was asked for.
_MISCOUNTED = re.compile(re.escape(FAILED) + r".* failed: it gave \d+ values for \d+ rows")


def miscounted(error: BaseException) -> bool:
    """Whether a failure is that a function gave a wrong number of values, which is no fault of a row.

    Asked for one row after the other it might give what fits, and nobody would know. Of what a function raises DuckDB
    hands on the text alone.

    >>> miscounted(ValueError("registered function f failed: it gave 1 values for 3 rows")), miscounted(ValueError("f"))
    (True, False)
    """
    return _MISCOUNTED.search(str(error)) is not None


def over_arrays(name: str, function: Callable[..., Any], vectorised: bool, returns: pa.DataType) -> Call:
    """`function` over arrays of one length, of which one is returned.

    Arguments:
        vectorised: it takes Arrow arrays and returns an array (or anything that Arrow makes one of); else it is called
            with the Python values of one row after the other.
        returns: the type of the result.

    >>> call = over_arrays("half", lambda a: a / 2, False, pa.float64())
    >>> call(pa.array([3, None])).to_pylist()
    [1.5, None]
    >>> call(pa.array(["x"]))
    Traceback (most recent call last):
        ...
    millpond.functions.calling.UserFunctionError: registered function half failed: TypeError: unsupported operand ...
    """
    own = function.__code__.co_filename if hasattr(function, "__code__") else None

    def call(*arguments: pa.Array | pa.ChunkedArray) -> pa.Array:
        columns = [a.combine_chunks() if isinstance(a, pa.ChunkedArray) else a for a in arguments]
        rows = len(columns[0]) if columns else 0
        nulls = None
        if any(c.null_count for c in columns):
            nulls = pc.is_null(columns[0])
            for column in columns[1:]:
                nulls = pc.or_(nulls, pc.is_null(column))
            columns = [c.filter(pc.invert(nulls)) for c in columns]
        count = len(columns[0]) if columns else rows
        if not count:
            return pa.nulls(rows, returns)
        try:
            # Not by `map`, for which a StopIteration of the function would be the end of the rows.
            lists = [c.to_pylist() for c in columns]
            made = function(*columns) if vectorised else [function(*row) for row in zip(*lists, strict=True)]
            result = _array(made, returns)
        except (Exception, SystemExit, GeneratorExit) as error:  # none of them may end the pond's process
            raise UserFunctionError(f"{FAILED}{name} failed: {_told(error, own)}") from None
        if len(result) != count:
            raise UserFunctionError(f"{FAILED}{name} failed: it gave {len(result)} values for {count} rows")
        if nulls is None:
            return result
        spread = pc.subtract(pc.cumulative_sum(pc.cast(pc.invert(nulls), pa.int64())), 1)
        return result.take(pc.if_else(nulls, pa.scalar(None, pa.int64()), spread))

    return call


def _array(made: Any, returns: pa.DataType) -> pa.Array:
    found = made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
    if not isinstance(found, pa.Array):
        found = pa.array(found, from_pandas=False) if hasattr(found, "dtype") else pa.array(found, returns)
    return found if found.type == returns else found.cast(returns)


def _told(error: BaseException, own: str | None) -> str:
    """The error and the frames of it that are not the engine's."""
    lines = "".join(traceback.format_exception_only(error)).strip()
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    shown = [f for f in frames if own is None or f.filename == own] or frames
    places = [f'File "{f.filename}", line {f.lineno}, in {f.name}' for f in shown[-FRAMES:]]
    return "; ".join([lines, *reversed(places)])
