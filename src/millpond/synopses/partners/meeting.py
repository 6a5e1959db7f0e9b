"""Rows whose keys are equal and whose spans meet: what is asked once, and keys of two types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from millpond.synopses.kernel import query_table
from millpond.synopses.partners.finding import LEAST, Sought, Validity, look_up
from millpond.synopses.partners.keys import codes_of, same_keys
from millpond.synopses.partners.orders import Ints, Mask, key_order


@dataclass(frozen=True)
class Spans:
    """Rows with the parts of their keys, each with a span of time, both ends of which belong to it."""

    keys: Sequence[pa.ChunkedArray]
    first: Ints
    last: Ints

    def take(self, rows: Ints) -> Spans:
        """Those of some rows."""
        keys = [k.take(pa.array(rows)) for k in self.keys]
        return Spans(keys, self.first[rows], self.last[rows])


def met(db: duckdb.DuckDBPyConnection, asked: Spans, stored: Spans, reach: int, most: int) -> tuple[Ints, Ints] | int:
    """All pairs of a row that asks and a stored one.

    Args:
        stored: in order of `first`.
        reach: how long the spans of stored rows are; negative: of any length.
        most: how many pairs may be found.
    Returns: their numbers, by the row that asks and then by the stored one; or how many there would be at least.
    """
    mine, theirs = (codes_of(db, s.keys, len(s.first)) for s in (asked, stored))
    if mine.kinds != theirs.kinds:
        return compared(db, asked, stored, most)
    places, known = (np.arange(len(c.codes)) if c.valid is None else np.flatnonzero(c.valid) for c in (theirs, mine))
    order = key_order(theirs.codes[places], places, stored.first[places], theirs.exact, theirs.kinds)
    latest, earliest = asked.last[known], asked.first[known]
    low = earliest - reach if reach >= 0 else np.full(len(known), LEAST)
    validity = None if reach >= 0 else Validity(stored.first, stored.last, latest, earliest)
    found = look_up([Sought(order)], mine.codes[known], low, latest, validity).pairs(most)
    if isinstance(found, int):
        return found
    kept, matched = known[found[0]], found[1]
    if not mine.exact and len(kept):  # equal codes of different keys are possible
        same: Mask = np.ones(len(kept), bool)
        for one, other in zip(asked.keys, stored.keys, strict=True):
            same &= same_keys(db, one.take(pa.array(kept)), other.take(pa.array(matched)))
        kept, matched = kept[same], matched[same]
    return kept, matched


def compared(db: duckdb.DuckDBPyConnection, asked: Spans, stored: Spans, most: int) -> tuple[Ints, Ints] | int:
    """As `met`, of keys of two types: DuckDB compares."""
    frontier = {"_f": np.arange(len(asked.first)), "_l": asked.last, "_s": asked.first}
    probed = {"_r": np.arange(len(stored.first)), "_b": stored.first, "_e": stored.last}
    tests = ["r._b <= f._l AND r._e >= f._s"]
    for n, (one, other) in enumerate(zip(asked.keys, stored.keys, strict=True)):
        frontier[f"e{n}"], probed[f"e{n}"] = one, other
        tests.append(f"f.e{n} = r.e{n}")
    sql = f"SELECT f._f, r._r FROM f JOIN r ON {' AND '.join(tests)} LIMIT {most + 1}"
    found = query_table(db, sql, f=pa.table(frontier), r=pa.table(probed))
    if found.num_rows > most:
        return int(found.num_rows)
    kept, matched = (np.asarray(found[name].to_numpy(), np.int64) for name in ("_f", "_r"))
    # Which side DuckDB hashes depends on how many rows are held; what an epoch writes must not.
    places = np.lexsort((matched, kept))
    return kept[places], matched[places]
