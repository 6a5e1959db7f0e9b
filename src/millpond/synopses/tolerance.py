"""Rows on which an expression fails are found by bisection and put aside; the others go on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from millpond.functions import FAILED, display, miscounted
from millpond.synopses.kernel import BROKEN, OUTSIDE, UNPLANNABLE, connection, reset
from millpond.synopses.partials.dispatch import Spec, partial

#: What a query's own data can raise (a sum overflows): it fails the query, not the epoch.
FAULTS = (duckdb.Error, ValueError, pa.ArrowException, OverflowError)

#: Where DuckDB names a column that only the engine's own SQL has.
_SOURCE = re.compile(r" when casting from source column (?:[a-z]\d+|_\w+)\b")

#: Failing rows that are looked for one by one. What fails behind them is put aside in pieces, good rows among them.
FAILING_ROWS = 1000


@dataclass(frozen=True)
class Parted:
    """good: pieces of the segment that work, in their order; made: what was made of each. failed: the other rows with
    their `_reason`; None if there are none."""

    good: list[pa.Table]
    made: list[pa.Table]
    failed: pa.Table | None


def bisect(make: Callable[[pa.Table], pa.Table], segment: pa.Table) -> Parted:
    """Part a segment into what `make` works on and what it raises duckdb.Error on.

    Args:
        make: asks for its connection anew at every call: an error may have broken the one before.
    Raises: duckdb.Error when no row is to blame.
    """
    good: list[pa.Table] = []
    made: list[pa.Table] = []
    bad: list[pa.Table] = []
    pending = [segment]
    while pending:
        piece = pending.pop()
        try:
            result = make(piece)
        except duckdb.Error as error:
            if not is_of_rows(error):
                raise
            if piece.num_rows <= 1 or len(bad) > FAILING_ROWS:
                reasons = pa.repeat(pa.scalar(one_line(error)), piece.num_rows)
                bad.append(piece.append_column("_reason", reasons))
            else:
                half = piece.num_rows // 2
                pending += [piece.slice(half), piece.slice(0, half)]
            continue
        good.append(piece)
        made.append(result)
    return Parted(good, made, pa.concat_tables(bad) if bad else None)


def is_of_rows(error: duckdb.Error) -> bool:
    """Whether other rows may fare better; the thread's connection is renewed where the error has broken it."""
    if isinstance(error, BROKEN):
        reset()
    return not miscounted(error) and not isinstance(error, (*OUTSIDE, *UNPLANNABLE))


def tolerant(make: Callable[[pa.Table], pa.Table], segment: pa.Table) -> tuple[pa.Table, pa.Table | None]:
    """What `make` makes of a segment, without the rows that it fails on; see `bisect`."""
    try:
        return make(segment), None
    except duckdb.Error as error:
        if segment.num_rows == 0 or not is_of_rows(error):
            raise
        first = error
    parted = bisect(make, segment)
    # Where each half works and the whole does not, the fault is in the aggregate, not in a row.
    if parted.failed is None or parted.failed.num_rows > FAILING_ROWS:
        raise first
    kept = pa.concat_tables(parted.good) if parted.good else segment.slice(0, 0)
    return make(kept), parted.failed


def tolerant_partial(spec: Spec, segment: pa.Table, extra: str = "") -> tuple[pa.Table, pa.Table | None]:
    """The partial of a segment; rows on which an expression fails are found by bisection and left out.

    Returns: the partial of the good rows, and the failing rows with their `_reason` (None if there are none).
    Raises: duckdb.Error when more than FAILING_ROWS rows fail.
    """
    return tolerant(lambda rows: partial(connection(), spec, rows, extra), segment)


def one_line(error: Exception) -> str:
    """An error's text as one line, without the SQL that it quotes, which is the engine's and not the user's.

    >>> one_line(ValueError("'a' is no INT32 when casting from source column a0\\n\\nLINE 1: SELECT a0"))
    "'a' is no INT32"
    """
    text = _SOURCE.sub("", str(error).partition("\n\nLINE ")[0])
    if (at := text.find(FAILED)) >= 0:  # what DuckDB puts around it, and the frames of the engine, say nothing
        return display(" ".join(text[at:].partition("\n\nAt:")[0].split()))[:1500]
    return display(" ".join(text.split()))[:500]
