"""Early, closed and final answers of relations: the log is what the definitions give, and nothing is final too soon."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millpond
from millpond.operators.stores import state as stores
from millpond.testing import VirtualClock
from tests.oracle.cql import Query, Row, Stamped, Windowed
from tests.quick import quick_folder
from tests.relations.setting import WINDOWS
from tests.relations.shapes import ONE, TWO, naive
from tests.relations.shapes import millpond as text_of
from tests.relations.test_engine import AB, END, EPOCH, NAMED

#: Each example looks at every instant.
FEW = max(4, settings.default.max_examples // 3)
S = 1_000_000

values = st.tuples(st.one_of(st.none(), st.integers(0, 2)), st.integers(0, 2))
batch = st.lists(st.tuples(st.integers(0, 9), values), min_size=1, max_size=3)
#: What an epoch takes, by stream, and the clock time before it, in seconds.
epochs = st.lists(
    st.tuples(st.dictionaries(st.sampled_from("su"), batch, max_size=2), st.sampled_from([0, 4, 10, 30])), max_size=7
)
operators = st.sampled_from(["ISTREAM", "DSTREAM", "RSTREAM", ""])


@pytest.fixture(autouse=True, scope="module")
def pruned_early() -> Iterator[None]:
    """Rows that nobody needs are left out of memory at once, not only where there are many."""
    before, stores.PRUNED = stores.PRUNED, 2
    yield
    stores.PRUNED = before


class Setting:
    """A pond with the streams s and u on a virtual clock, and the rows that came into them."""

    def __init__(self, folder: Any, options: str) -> None:
        self.folder, self.clock = folder, VirtualClock()
        folder.mkdir(exist_ok=True)
        (folder / "t.csv").write_text("a,name\n1,one\n2,two\n,none\n")
        self.pond = self._open()
        for name in "su":
            self.pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, a INTEGER, b INTEGER) WITH (event_time='ts'{options})")
        self.pond.sql(f"CREATE TABLE t (a INTEGER, name TEXT) WITH (path='{folder / 't.csv'}')")
        self.rows: dict[str, list[Stamped]] = {"s": [], "u": []}

    def _open(self) -> Any:
        return millpond.open(self.folder / "pond", executor="inline", shards=2, compact_files=2, clock=self.clock)

    def restart(self) -> None:
        self.pond.close()
        self.pond = self._open()

    def take(self, given: dict[str, list[tuple[int, Row]]]) -> None:
        for name in "su":
            if name in given:
                rows = [{"ts": EPOCH + dt.timedelta(microseconds=t), "a": a, "b": b} for t, (a, b) in given[name]]
                self.pond.ingest(name, rows)
                held = self.rows[name]
                held += [Stamped(t, len(held) + n, v) for n, (t, v) in enumerate(given[name])]

    def log(self, name: str = "q", more: str = "ALL REVISIONS") -> list[tuple[Any, ...]]:
        table = self.pond.sql(f"SELECT * FROM {name} {more}").table
        at = table["at"].cast("int64").to_pylist()
        return [(t, *row.values()) for t, row in zip(at, table.drop_columns(["at"]).to_pylist(), strict=True)]


def reports(
    shape: str, operator: str, windows: Sequence[str], rows: dict[str, list[Stamped]], last: int
) -> Counter[tuple[int, Row]]:
    """All that a query reports over these rows, by instant."""
    inputs = {}
    for n, (name, window) in enumerate(zip("su", windows, strict=False)):
        form, partition = WINDOWS[window]
        inputs[f"w{n}"] = Windowed(AB, list(rows[name]), form, (0,) if partition else ())
    query = Query(naive(shape), inputs, {"t": ({"a": "INTEGER", "name": "VARCHAR"}, NAMED)})
    if operator == "RSTREAM":
        seen = [r.stamp for n, w in zip("su", windows, strict=False) for r in rows[n]]
        return query.rstream(min(seen), last + 1) if seen else Counter()
    if operator:
        return getattr(query, operator.lower())(-1, END)
    enters, leaves = query.istream(-1, END), query.dstream(-1, END)
    return Counter({(t, (*r, "+")): n for (t, r), n in enters.items()}) + Counter(
        {(t, (*r, "-")): n for (t, r), n in leaves.items()}
    )


class Expected:
    """The log by definition."""

    def __init__(self) -> None:
        self.log: Counter[tuple[Any, ...]] = Counter()
        self.shown: Counter[tuple[int, Row]] = Counter()
        self.closed: Counter[tuple[int, Row]] = Counter()
        self.numbers: dict[int, int] = {}
        self.bound, self.at, self.stirred = -(10**9), None, False

    def step(self, now: Counter[tuple[int, Row]], bound: int, high: int, clock: int, stirred: bool, early: int) -> None:
        """An epoch after which `now` would be reported of all instants."""
        was, self.bound = self.bound, max(self.bound, bound)
        changes: list[tuple[int, Row, int, str]] = []
        for (instant, row), n in _less(_only(now, -END, was), self.closed):
            changes.append((instant, row, n, "closed"))
        closing = _only(now, was, self.bound)
        changes += [(t, row, n, "closed") for (t, row), n in closing.items()]
        changes += [(t, row, -n, "early") for (t, row), n in _only(self.shown, was, self.bound).items()]
        self.closed = _only(now, -END, self.bound)
        self.shown = _only(self.shown, self.bound, 10**9)
        self.stirred = self.stirred or stirred
        if self.stirred and bound < 10**8 and (self.at is None or clock - self.at >= early):
            self.at, self.stirred = clock, False
            fresh = _only(now, self.bound, high + 1)
            changes += [(t, row, n, "early") for (t, row), n in _less(fresh, self.shown)]
            self.shown = fresh
        for instant in {t for t, *_ in changes}:
            # An instant that progress had passed has been reported, be it that nothing was to be said.
            self.numbers[instant] = self.numbers.get(instant, 0 if instant < was else -1) + 1
        for instant, row, n, status in changes:
            self.log[(instant, *row, self.numbers[instant], status, "+" if n > 0 else "-")] += abs(n)


def _named(operator: str, windows: list[str]) -> list[str]:
    """Without an operator, a stream without a window is one of rows: then the window that it stands for is written."""
    return windows if operator else [w or "[RANGE UNBOUNDED]" for w in windows]


def _only(bag: Counter[tuple[int, Row]], low: int, high: int) -> Counter[tuple[int, Row]]:
    return Counter({k: n for k, n in bag.items() if low <= k[0] < high and n})


def _less(now: Counter[tuple[int, Row]], old: Counter[tuple[int, Row]]) -> list[tuple[tuple[int, Row], int]]:
    return [(k, now[k] - old[k]) for k in {**now, **old} if now[k] != old[k]]


def play(data: Any, shapes: Sequence[str], streams: int) -> None:
    shape, operator = data.draw(st.sampled_from(shapes)), data.draw(operators)
    windows = data.draw(st.lists(st.sampled_from(sorted(WINDOWS)), min_size=streams, max_size=streams))
    windows = _named(operator, windows)
    lateness = data.draw(st.integers(0, 4))
    every = ", every='1 us'" if operator == "RSTREAM" else ""
    with quick_folder() as folder:
        own = Setting(folder / "x", f", lateness='{lateness} us'" if lateness else "")
        try:
            text = text_of(shape, operator, *windows)
            own.pond.sql(f"CREATE QUERY q AS {text} WITH (early='10s'{every})")
            expected = Expected()
            names = "su"[:streams]
            for given, seconds in data.draw(epochs):
                if data.draw(st.integers(0, 4)) == 0:
                    own.restart()
                own.clock.advance(seconds * S)
                own.take(given)
                if not own.pond.step():
                    continue
                highs = [max((r.stamp for r in own.rows[n]), default=-(10**9)) for n in names]
                bound = min(highs) - lateness
                now = reports(shape, operator, windows, own.rows, max(highs))
                expected.step(now, bound, max(highs), own.clock(), any(n in given for n in names), 10 * S)
            own.pond.drain(final=True)
            highs = [max((r.stamp for r in own.rows[n]), default=-(10**9)) for n in names]
            last = max(
                h + (WINDOWS[w][0][1] + 1 if WINDOWS[w][0][0] == "range" else 0)
                for h, w in zip(highs, windows, strict=True)
            )
            now = reports(shape, operator, windows, own.rows, last)
            expected.step(now, 10**8, max(highs), own.clock(), False, 10 * S)
            assert Counter(own.log()) == expected.log, text
            # What is final in the end is what holds in the end, each row as often as it does.
            final = Counter(row[:-2] for row in own.log("q", "FINAL"))
            assert final == Counter({(t, *row): n for (t, row), n in now.items() if n})
        finally:
            own.pond.close()


@given(data=st.data())
@settings(max_examples=3 * FEW)
def test_log_over_one_stream(data: Any) -> None:
    play(data, ONE, 1)


@given(data=st.data())
@settings(max_examples=FEW)
def test_log_over_two_streams(data: Any) -> None:
    play(data, TWO, 2)


def test_an_instant_that_is_crowded_by_a_late_row_is_reported_once(tmp_path: Any) -> None:
    """The row that a late one of the same instant pushes out of [ROWS 1] had been reported: nothing changes."""
    own = Setting(tmp_path / "x", "")
    shape = next(s for s in TWO if "NOT EXISTS" in s)
    windows = ["[ROWS 1]", "[RANGE UNBOUNDED]"]
    own.pond.sql(f"CREATE QUERY q AS {text_of(shape, 'ISTREAM', *windows)} WITH (early='10s')")
    taken: list[dict[str, list[int]]] = [
        {"s": [0], "u": [3, 0]}, {}, {"s": [0]}, {"s": [0]}, {}, {"s": [4], "u": [0]}, {"s": [0]}
    ]  # fmt: skip
    for each in taken:
        own.take({name: [(t, (None, 0)) for t in times] for name, times in each.items()})
        own.pond.step()
    own.pond.drain(final=True)
    now = reports(shape, "ISTREAM", windows, own.rows, 9)
    log: Counter[Any] = Counter()
    for t, *row, _, _, op in own.log():
        log[t, tuple(row)] += 1 if op == "+" else -1
    own.pond.close()
    assert +log == now == Counter({(0, (None, 0)): 1})


@pytest.mark.parametrize("late", ["revise", "drop"])
@given(data=st.data())
@settings(max_examples=2 * FEW)
def test_each_final_row_once(late: str, data: Any) -> None:
    """With and without `early`; a consumer may stop in the middle of a batch and come back."""
    streams = data.draw(st.integers(1, 2))
    shape = data.draw(st.sampled_from(ONE if streams == 1 else TWO))
    operator = data.draw(st.sampled_from(["ISTREAM", "DSTREAM", ""]))
    windows = data.draw(st.lists(st.sampled_from(sorted(WINDOWS)), min_size=streams, max_size=streams))
    windows = _named(operator, windows)
    kept, lateness = data.draw(st.integers(0, 6)), data.draw(st.integers(0, 3))
    idle = ", idle='5 s'" if data.draw(st.booleans()) else ""
    with quick_folder() as folder:
        own = Setting(folder / "x", f", lateness='{lateness} us', late='{late}'{idle}" if lateness else
                      f", late='{late}'{idle}")  # fmt: skip
        try:
            text = text_of(shape, operator, *windows)
            keep = f"beyond='drop', revise_for='{kept} us'" if kept else "beyond='drop', revise_for='0 s'"
            own.pond.sql(
                f"CREATE QUERY q AS {text} WITH ({keep}, early='1s'); CREATE QUERY plain AS {text} WITH ({keep})"
            )
            got: dict[str, list[Any]] = {"q": [], "plain": []}
            cursors: dict[str, Any] = {"q": None, "plain": None}

            def read(name: str) -> int:
                found = 0
                for b in own.pond.subscribe(name, since=cursors[name], timeout=0, final=True):
                    cursors[name] = str(b.cursor)
                    rows = b.rows.drop_columns([c for c in ("revision", "status", "op") if c in b.rows.column_names])
                    found += rows.num_rows
                    got[name] += [tuple(r.values()) for r in rows.to_pylist()]
                    if data.draw(st.booleans()):
                        break
                return found

            for given, seconds in data.draw(epochs):
                own.clock.advance(seconds * S)
                own.take(given)
                own.pond.step()
                if data.draw(st.integers(0, 4)) == 0:
                    own.restart()
                for name in got:
                    read(name)
            own.pond.drain(final=True)
            for name in got:
                while read(name):
                    pass
            assert got["q"] == got["plain"], text
            final = own.pond.sql("SELECT * EXCLUDE (revision) FROM plain FINAL").rows()
            assert got["plain"] == final, text
            # Nothing of it was changed later: it is what remains of the log.
            left = Counter()
            for *row, _, op in own.pond.sql("SELECT * FROM plain ALL REVISIONS").rows():
                left[tuple(row)] += 1 if op == "+" else -1
            assert Counter(final) == +left, text
            ats = [row[0] for row in got["plain"]]
            assert ats == sorted(ats)
        finally:
            own.pond.close()
