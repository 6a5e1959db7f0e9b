"""Windows of groups without a row, and what fills them, whatever comes in which order: late, cut, restarted,
back-filled.

State is kept short, so that late rows also belong to answers that are recomputed from the archive.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from math import gcd
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import millpond
from tests.oracle.gaps import Gapped, Seen
from tests.quick import quick_folder

S = 1_000_000
START = dt.datetime(2024, 1, 1)

rows = st.tuples(
    st.one_of(st.integers(0, 40), st.integers(0, 200)),
    st.sampled_from(["a", "b", None]),
    st.sampled_from([0, 1, 2, 4, None]),
)
words = st.sampled_from(["", "null", "0", "previous", "linear"])


@st.composite
def gapped(draw: st.DrawFn) -> Gapped:
    size, slide = draw(st.sampled_from([(10, 10), (20, 10), (15, 10), (5, 10)]))
    fills = draw(st.tuples(st.sampled_from(["", "", "null", "previous", "linear"]), words))
    return Gapped(size, slide, size * draw(st.integers(1, 5)), fills, draw(st.integers(0, 3)) == 0)


def _options(case: Gapped) -> str:
    words = [w for w in (case.fills[1], case.fills[0] and f"n = {case.fills[0]}") if w]
    filled = f", fill='{', '.join(words)}'" if words else ""
    known = "" if case.whole and not words else f", known_for='{case.known} s'"
    return f"empty='report'{known}{filled}"


def _text(case: Gapped) -> str:
    window = f"[RANGE {case.size} SECONDS SLIDE {case.slide} SECONDS]"
    keys, groups = ("", "") if case.whole else ("k, ", " GROUP BY k")
    return f"SELECT {keys}count(*)::DOUBLE AS n, sum(v)::DOUBLE AS v FROM s {window}{groups}"


def _shown(case: Gapped, pond: millpond.Pond, text: str) -> list[tuple[Any, ...]]:
    return _sorted(
        ((r["window_end"] - START).total_seconds(), r.get("k"), r["n"], r["v"])
        for r in pond.sql(text).table.to_pylist()
    )


def _sorted(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(((int(e), k, _near(n), _near(v)) for e, k, n, v in rows), key=repr)


def _near(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _seen(case: Gapped, taken: list[Seen]) -> list[Seen]:
    return [(t, None, v) for t, _, v in taken] if case.whole else taken


def _wanted(case: Gapped, taken: list[Seen], until: int) -> list[tuple[Any, ...]]:
    return _sorted(case.answers(_seen(case, taken), until))


def _check_asked(case: Gapped, pond: millpond.Pond, taken: list[Seen], until: int) -> None:
    """Who asks gets what has a row, from all rows: of NOW, and of the windows that end until then."""
    seen, now = _seen(case, taken), max(t for t, _, _ in taken)
    assert _shown(case, pond, "INVOKE q") == _sorted(case.invoked(seen, now))
    assert _shown(case, pond, _text(case)) == _sorted(case.asked_once(seen, until))


@given(st.data())
def test_gaps_are_told_and_filled(data: st.DataObject) -> None:
    case, kept = data.draw(gapped()), data.draw(st.sampled_from(["", ", revise_for='0 s'", ", revise_for='30 s'"]))
    epochs = data.draw(st.lists(st.lists(rows, max_size=4), min_size=1, max_size=6))
    begin, taken, paused = data.draw(st.integers(0, len(epochs))), list[Seen](), False
    with quick_folder() as folder:
        shards = data.draw(st.sampled_from([1, 2]))
        pond = millpond.open(str(folder / "p"), executor="inline", shards=shards)
        lateness = data.draw(st.integers(0, 30))
        pond.sql(f"CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (lateness='{lateness} s')")
        pond.sql(f"CREATE QUERY q WITH ({_options(case)}{kept}) AS {_text(case)}")
        for number, epoch in enumerate(epochs):
            if number == begin:
                pond.sql(f"CREATE QUERY later WITH (since='start', {_options(case)}{kept}) AS {_text(case)}")
            if epoch:
                pond.ingest("s", [{"ts": START + dt.timedelta(seconds=t), "k": k, "v": v} for t, k, v in epoch])
                taken += epoch
            if data.draw(st.integers(0, 4)) == 0:
                pond.sql(f"ALTER QUERY q {'RESUME' if paused else 'PAUSE'}")
                paused = not paused
            pond.step()
            if taken and not paused:
                high = max(t for t, _, _ in taken)
                until = (high - lateness) // case.slide * case.slide
                assert kept or _shown(case, pond, "SELECT * FROM q") == _wanted(case, taken, until)
                _check_asked(case, pond, taken, high)
            if data.draw(st.integers(0, 3)) == 0:
                pond.close()
                pond = millpond.open(str(folder / "p"), executor="inline", shards=shards)
        if paused:
            pond.sql("ALTER QUERY q RESUME")
            pond.step()
        pond.drain(final=True)
        pane = gcd(case.size, case.slide)
        # The last window that holds the instant of the last row, as far as panes tell.
        last = (max((t for t, _, _ in taken), default=0) // pane * pane + case.size) // case.slide * case.slide
        if case.whole and "linear" not in case.fills:  # nothing is empty behind the last window with a row
            last = max(((t // pane * pane + case.size) // case.slide * case.slide for t, _, _ in taken), default=0)
        for name in ("q", "later") if begin < len(epochs) else ("q",):
            assert _shown(case, pond, f"SELECT * FROM {name}") == _wanted(case, taken, last), name
        if taken:
            _check_asked(case, pond, taken, last)
        pond.close()


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("kept", ["", ", revise_for='30 s'", ", revise_for='0 s'"])
@pytest.mark.parametrize("later", [[], [100]])
def test_a_row_before_all_others(kept: str, later: list[int], paused: bool) -> None:
    """Windows from it to the first one were empty, those that state covers as those that it does not."""
    with quick_folder() as folder, millpond.open(str(folder / "p"), executor="inline") as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, v BIGINT)")
        pond.sql(
            f"CREATE QUERY q WITH (empty='report'{kept}) AS SELECT count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS]"
        )
        for number, seconds in enumerate([[40, 80], [0], later]):
            if paused and number == 1:
                pond.sql("ALTER QUERY q PAUSE")
            if seconds:
                pond.ingest("s", [{"ts": START + dt.timedelta(seconds=t), "v": t} for t in seconds])
            pond.step()
        if paused:
            pond.sql("ALTER QUERY q RESUME")
            pond.step()
        pond.drain(final=True)
        seen = [0, 40, 80, *later]
        assert pond.sql("SELECT n FROM q ORDER BY window_end").table["n"].to_pylist() == [
            int(t in seen) for t in range(0, max(seen) + 10, 10)
        ]


def test_a_late_row_that_no_window_holds_makes_no_gap(tmp_path: Path) -> None:
    """Windows lie apart, and no row is in any: there is no first one, from which on they are reported."""
    with millpond.open(tmp_path / "p", executor="inline") as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (lateness='0 s')")
        pond.sql(
            "CREATE QUERY q WITH (empty='report', fill='0') AS"
            " SELECT count(*) AS n, sum(v) AS v FROM s [RANGE 5 SECONDS SLIDE 10 SECONDS]"
        )
        for second, shown in ((10, []), (0, []), (6, [(10, 1), (20, 0)])):
            pond.ingest("s", [{"ts": START + dt.timedelta(seconds=second), "k": "a", "v": 0}])
            pond.ingest("s", [{"ts": START + dt.timedelta(seconds=20), "k": "a", "v": 0}] if second == 6 else [])
            pond.step()
            found = pond.sql("SELECT window_end, n FROM q ORDER BY window_end").rows()
            assert [((end - START).total_seconds(), n) for end, n in found] == shown, second
