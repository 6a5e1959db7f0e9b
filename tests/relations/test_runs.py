"""Runs are the total order whatever came in which order, stay sorted by key, and partners in them are all that fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.relations import all_rows, only_needed, runs, with_rows
from millpond.relations.runs import Run
from millpond.synopses.partners import finding
from millpond.synopses.partners.finding import LEAST, Matches, Sought, Validity, look_up
from millpond.synopses.partners.orders import KeyOrder, key_order, spread_codes

rows = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3)), min_size=1, max_size=12)


def table(drawn: list[tuple[int, int]], first: int) -> pa.Table:
    """Rows of a store in total order: `_t`, `_id` and a key."""
    t, k = (np.array(c, np.int64) for c in zip(*drawn, strict=True))
    return pa.table({"_t": t, "_id": np.arange(first, first + len(t)), "k": k}).sort_by(
        [("_t", "ascending"), ("_id", "ascending")]
    )


def order(run: Run) -> KeyOrder:
    codes = spread_codes(run.rows["k"].to_numpy())
    return key_order(codes, np.arange(len(codes)), run.times, True, ("number",))


def valid(sought: list[Sought], begin: Any, end: Any, reach: int, codes: Any, latest: Any, earliest: Any) -> Matches:
    """Partners that are valid; they end so long after they begin, or (-1) whenever they do."""
    low = earliest - reach if reach >= 0 else np.full(len(codes), LEAST)
    return look_up(sought, codes, low, latest, Validity(begin, end, latest, earliest))


@given(deltas=st.lists(rows, min_size=1, max_size=6), small=st.sampled_from([1, 4, 1000]), data=st.data())
@settings(deadline=None)
def test_runs_are_the_total_order_and_find_what_fits(deltas: list[Any], small: int, data: Any) -> None:
    before, runs.SMALL_RUN = runs.SMALL_RUN, small
    walked, finding.WALK = finding.WALK, finding.WALK
    try:
        found: tuple[Run, ...] = ()
        came = []
        for number, drawn in enumerate(deltas):
            came.append(table(drawn, 100 * number))
            found = with_rows(found, came[-1])
            for run in found:
                run.order("k", order)
        expected = pa.concat_tables(came).sort_by([("_t", "ascending"), ("_id", "ascending")])
        assert all_rows(found).equals(expected.combine_chunks()) or all_rows(found).to_pydict() == expected.to_pydict()
        mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(expected), max_size=len(expected))))
        found, expected = only_needed(found, mask), expected.filter(pa.array(mask))
        assert (all_rows(found).to_pydict() if found else expected.slice(0, 0).to_pydict()) == expected.to_pydict()
    finally:
        runs.SMALL_RUN, finding.WALK = before, walked
    begin = expected["_t"].to_numpy()
    reach = data.draw(st.sampled_from([3, -1]))
    end = begin + reach if reach > 0 else begin + np.arange(len(begin)) % 5
    asked = data.draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 14), st.integers(0, 14)), max_size=8))
    codes = spread_codes(np.array([a for a, _, _ in asked], np.int64))
    latest, earliest = (np.array([a[n] for a in asked], np.int64) for n in (1, 2))
    starts = np.cumsum([0, *(len(r) for r in found)])
    sought = [
        Sought(r.order("k", order) or order(r), int(s), int(r.times[0]), int(r.times[-1]))
        for r, s in zip(found, starts, strict=False)
    ]
    pairs = valid(sought, begin, end, reach, codes, latest, earliest).pairs(10_000)
    if reach > 0:  # the band says it all
        plain = look_up(sought, codes, earliest - reach, latest)
        assert isinstance(pairs, tuple) and [p.tolist() for p in plain.pairs(10_000)] == [p.tolist() for p in pairs]  # type: ignore[union-attr]
        for at_once in (1, 3, 10_000):
            pieces = list(plain.pieces(at_once))
            assert all(len(r) <= at_once for r, _ in pieces)
            assert [[x for p in pieces for x in p[n].tolist()] for n in (0, 1)] == [p.tolist() for p in pairs]
    keys = expected["k"].to_numpy()
    wanted = [
        (n, m)
        for n, (k, low, high) in enumerate(asked)
        for m in range(len(begin))
        if keys[m] == k and begin[m] <= low and end[m] >= high
    ]
    assert isinstance(pairs, tuple) and list(zip(*(p.tolist() for p in pairs), strict=True)) == wanted
    matches = valid(sought, begin, end, reach, codes, latest, earliest)
    assert np.flatnonzero(matches.some()).tolist() == sorted({n for n, _ in wanted})
    if wanted:
        assert matches.pairs(0) == len(wanted)
        last = matches.take(np.array([wanted[-1][0]] * 2)).pairs(10_000)
        assert isinstance(last, tuple) and last[1].tolist() == [m for n, m in wanted if n == wanted[-1][0]] * 2


@pytest.mark.parametrize("keys", [1, 40])
def test_a_key_with_many_rows_is_searched_by_time(keys: int) -> None:
    t = np.arange(4_000, dtype=np.int64)
    run = Run(pa.table({"k": t % keys}), t, t)
    sought = [Sought(order(run), 0, 0, 3_999)]
    asked = np.array([0, 1_999, 3_999])
    codes = spread_codes(asked % keys)
    found = valid(sought, t, t + 401, 401, codes, asked, asked + 1).pairs(10_000)
    assert isinstance(found, tuple)
    for n, at in enumerate(asked):
        assert found[1][found[0] == n].tolist() == [m for m in range(max(0, at - 400), at + 1) if m % keys == at % keys]
