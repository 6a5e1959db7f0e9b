"""Kinds of windows from outside the package, registered and used in SQL: against their extents, row by row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millpond
from millpond.support.errors import MillpondError, PondError, QueryError
from millpond.windows.kinds import mismatches
from millpond.windows.registered import Axis
from tests.oracle import Case, Row, Table, assert_rows_equal
from tests.oracle.case import span
from tests.oracle.evaluate import over
from tests.progress.test_unions import TYPES, S, Streams, streams
from tests.properties.harness import wanted
from tests.windows.months import Months

Factory = Callable[..., Any]


@dataclass(frozen=True)
class Uneven:
    """Window w starts at w * step seconds and is short + w % most seconds long: ends ascend with w, lengths do not."""

    step: int
    short: int
    most: int

    @property
    def longest(self) -> int:
        """Seconds of the longest window."""
        return (self.short + self.most) * S

    @property
    def grid(self) -> int:
        """Everything lies on whole seconds."""
        return S

    def extent(self, wid: int) -> tuple[int, int]:
        """See `WindowKind`."""
        return wid * self.step * S, (wid * self.step + self.short + wid % self.most) * S

    def wids(self, time: int, until: int) -> range:
        """See `WindowKind`: of the few windows that can hold the time those that do."""
        last = time // (self.step * S)
        held = [w for w in range(last - (self.short + self.most) // self.step - 1, last + 1)
                if self.extent(w)[0] <= time < self.extent(w)[1] <= until]  # fmt: skip
        return range(held[0], held[-1] + 1) if held else range(0)

    def windows(self, times: Iterable[int], until: int) -> list[int]:
        """See `WindowKind`."""
        return sorted({w for t in times for w in self.wids(t, until)})


#: `most` is less than `step`, so that ends ascend; and windows before that hold a time are consecutive.
kinds = st.builds(Uneven, st.integers(3, 9), st.integers(1, 20), st.integers(1, 2))


def expected(kind: Any, case: Case, rows: list[Row], bound: int | None = None) -> list[tuple[Any, ...]]:
    """Every window that holds a row, from the definition: the rows in its extent."""
    table, found = Table(tuple(rows), TYPES), []
    near = range(-30, 60)
    for wid in near:
        start, end = kind.extent(wid)
        inside = [r for r in rows if start <= r.time < end]
        if inside and (bound is None or end <= bound):
            found += [(start, end, *items) for items, _ in over(case, table, inside, start, end)]
    return wanted(found)


@given(kinds, st.lists(st.integers(-100, 100), min_size=1, max_size=5))
def test_the_kinds_of_these_tests_are_sound(kind: Uneven, seconds: list[int]) -> None:
    assert mismatches(kind, [s * S for s in seconds], 2**62) == []


@given(kinds, st.lists(st.integers(-100 * S, 100 * S), min_size=1, max_size=9), st.integers(-100 * S, 100 * S))
def test_an_axis_counts_the_windows_that_have_ended(kind: Uneven, times: list[int], bound: int) -> None:
    axis = Axis("k", kind)
    ended = axis.ended(bound)
    assert kind.extent(ended - 1)[1] <= bound < kind.extent(ended)[1]
    rows, wids = axis.bucket([t // S * S for t in times])
    pairs = {(int(r), int(w)) for r, w in zip(rows, wids, strict=True)}
    assert pairs == {(n, w) for n, t in enumerate(times) for w in range(-50, 60)
                     if kind.extent(w)[0] <= t // S * S < kind.extent(w)[1]}  # fmt: skip


values = st.tuples(st.integers(0, 40), st.sampled_from(["x", "y", None]), st.integers(0, 9))
batches = st.lists(st.tuples(st.sampled_from("ab"), st.lists(values, min_size=1, max_size=4)), min_size=1, max_size=8)


class Kinds(Streams):
    """A pond that is given its kind at every opening."""

    kind: Any = None

    def _open(self) -> Any:
        return millpond.open(self.folder, executor="inline", clock=self.clock, window_kinds={"uneven": self.kind})


@given(st.data())
def test_answers_are_those_of_the_extents(data: st.DataObject) -> None:
    """On a stream and a union: live, back-filled, paused, restarted, with late rows, ad hoc."""
    kind = data.draw(kinds)
    union = data.draw(st.booleans())
    source = "(a UNION ALL b)" if union else "a"
    case = Case(("k AS c0", "count(*) AS c1", "sum(n) AS c2"), 1, 1, group_by=("k",), where="n < 8")
    select = f"SELECT {', '.join(case.select)} FROM {source} [KIND uneven] WHERE n < 8 GROUP BY k"
    taken = data.draw(batches)
    start, pause = data.draw(st.integers(0, len(taken))), data.draw(st.integers(0, len(taken)))
    resume = data.draw(st.integers(pause, len(taken)))
    bag: list[Row] = []
    with streams(f", lateness='{data.draw(st.integers(0, 9))}s'") as s:
        s.__class__ = Kinds
        assert isinstance(s, Kinds)
        s.kind = kind
        s.pond.register_window_kind("uneven", kind)
        s.pond.sql(f"CREATE QUERY q AS {select}; CREATE QUERY paused AS {select}")
        s.pond.sql(f"CREATE QUERY hasty WITH (early='2s') AS {select}")
        for number in range(len(taken) + 1):
            if number == start:
                s.pond.sql(f"CREATE QUERY later AS {select} WITH (since='start')")
            if number == pause:
                s.pond.sql("ALTER QUERY paused PAUSE")
            if number == resume:
                s.pond.sql("ALTER QUERY paused RESUME")
            if number < len(taken):
                stream, rows = taken[number]
                new = [Row(t * S, len(bag) + i, {"k": k, "n": n}) for i, (t, k, n) in enumerate(rows)]
                bag += new if union or stream == "a" else []
                s.ingest(stream, new)
                s.clock.advance(data.draw(st.integers(0, 3)) * S)
                if data.draw(st.booleans()):
                    s.pond.step()
                if data.draw(st.integers(0, 5)) == 0:
                    s.restart()
        s.settle()
        closed = s.pond._core.published.queries
        bounds = {known.closed for known in closed.values()}
        shown = "SELECT window_start, window_end, c0, c1, c2 FROM "
        if len(bounds) == 1 and (bound := bounds.pop()) > -(2**61):
            assert_rows_equal(expected(kind, case, bag, bound), s.rows(shown + "q"), what="progress")
        s.pond.drain(final=True)
        for query in ("q", "later", "paused", "hasty", "hasty FINAL"):
            assert_rows_equal(expected(kind, case, bag), s.rows(shown + query), what=f"{query}: final")
        assert s.rows("SELECT DISTINCT status FROM hasty") in ([("closed",)], [])
        now = max((r.time for r in bag), default=0)
        ended = {row[:2] for row in expected(kind, case, bag, now)}
        held = [r for r in s.rows(select) if tuple(r[:2]) in ended]
        assert_rows_equal(expected(kind, case, bag, now), held, what="ad hoc")


@given(st.data())
def test_early_answers_are_those_of_windows_that_slide(data: st.DataObject) -> None:
    """A kind whose windows are those of RANGE and SLIDE says the same, early, closed and late, revision by revision."""
    step, length = data.draw(st.sampled_from([(10, 10), (5, 12), (7, 3)]))
    with streams(f", lateness='{data.draw(st.integers(0, 9))}s'") as s:
        s.pond.register_window_kind("uneven", Uneven(step, length, 1))
        for name, window in (
            ("kind", "KIND uneven"),
            ("slide", f"RANGE {length} SECONDS SLIDE {step} SECONDS ALIGN START"),
        ):
            s.pond.sql(f"CREATE QUERY {name} WITH (early='2s') AS SELECT k, sum(n) AS t FROM a [{window}] GROUP BY k")
        for number, (stream, rows) in enumerate(data.draw(batches)):
            s.ingest(stream, [Row(t * S, 100 * number + i, {"k": k, "n": n}) for i, (t, k, n) in enumerate(rows)])
            s.clock.advance(data.draw(st.integers(0, 3)) * S)
            s.pond.step()
        s.pond.drain(final=True)
        log = "SELECT window_start, window_end, k, t, revision, op, status FROM {} ALL REVISIONS ORDER BY ALL"
        assert s.rows(log.format("kind")) == s.rows(log.format("slide"))


@settings(max_examples=max(4, settings.default.max_examples // 4))
@given(st.data())
def test_empty_windows_and_forms_of_state_are_those_of_windows_that_slide(data: st.DataObject) -> None:
    """Every window from the first on; of groups also the first one without a row; kept as partials, tuples, or both."""
    step, length = data.draw(st.sampled_from([(10, 10), (5, 12), (7, 3)]))
    with streams(f", lateness='{data.draw(st.integers(0, 9))}s'") as s:
        s.__class__ = Kinds
        assert isinstance(s, Kinds)
        s.kind = Uneven(step, length, 1)
        s.pond.register_window_kind("uneven", s.kind)
        slide = f"RANGE {length} SECONDS SLIDE {step} SECONDS ALIGN START"
        state = data.draw(st.sampled_from(["eager", "lazy", "adaptive"]))
        queries = {
            "total": ("", f"empty='report', state='{state}'"),
            "groups": ("k, ", f"state='{state}'"),
            "seen": ("k, ", f"empty='report', state='{state}'"),
        }
        made = {name: q for name, q in queries.items() if name != "seen" or step == length}
        start, taken = data.draw(st.integers(0, 8)), data.draw(batches)
        for number, (stream, rows) in enumerate([*taken, ("a", [])]):
            for name, (keys, more) in made.items():
                for kind, window in (("kind", "KIND uneven"), ("slide", slide)):
                    text = f"SELECT {keys}count(*) AS c, sum(n) AS t, avg(n) AS a, max(n) AS m FROM a [{window}]"
                    text += " GROUP BY k" if keys else ""
                    if number == min(start, len(taken)):
                        s.pond.sql(f"CREATE QUERY later_{name}_{kind} WITH (since='start', {more}) AS {text}")
                    if number == 0:
                        s.pond.sql(f"CREATE QUERY {name}_{kind} WITH ({more}) AS {text}")
            s.ingest(stream, [Row(t * S, 100 * number + i, {"k": k, "n": n}) for i, (t, k, n) in enumerate(rows)])
            s.pond.step()
            if data.draw(st.integers(0, 5)) == 0:
                s.restart()
        s.pond.drain(final=True)
        for name in made:
            for each in (f"{name}_{{}} ALL REVISIONS", f"later_{name}_{{}}"):
                one, other = (s.rows(f"SELECT * FROM {each.format(kind)} ORDER BY ALL") for kind in ("kind", "slide"))
                assert one == other, (each, state)


@given(st.data())
def test_answers_that_go_out_by_and_by(data: st.DataObject) -> None:
    """A window of a kind waits as one that slides does, and says the same in the end."""
    flush = data.draw(st.sampled_from(["flush='slow', flush_delay='4s'", "flush='lazy', flush_delay='60s'"]))
    shown = "SELECT window_end, k, t, revision FROM {} ALL REVISIONS ORDER BY ALL"
    with streams(f", lateness='{data.draw(st.integers(0, 9))}s'") as s:
        s.pond.register_window_kind("uneven", Uneven(10, 10, 1))
        for name, window in (("kind", "KIND uneven"), ("slide", "RANGE TUMBLING 10 SECONDS")):
            s.pond.sql(f"CREATE QUERY {name} WITH ({flush}) AS SELECT k, sum(n) AS t FROM a [{window}] GROUP BY k")
        for second in sorted(data.draw(st.lists(st.integers(0, 90), min_size=2, max_size=12))):
            s.ingest("a", [Row(second * S, second, {"k": k, "n": second}) for k in ("x", "y", None)])
            s.clock.advance(data.draw(st.integers(0, 3)) * S)
            s.pond.step()
            if flush.startswith("flush='lazy'"):  # goes out when two windows more have ended
                bound = max(known.closed for known in s.pond._core.published.queries.values())
                out, others = ({row[0][1] for row in s.rows(shown.format(name))} for name in ("kind", "slide"))
                assert all(end + 20 * S <= bound for end in out) and others <= out
        s.pond.drain(final=True)
        assert s.rows(shown.format("kind")) == s.rows(shown.format("slide"))


def test_forms_of_state_of_a_stream_that_has_ended(inline_pond: Factory) -> None:
    """Files of state are put together when all windows have been answered: of months there is no last one."""
    pond = inline_pond(compact_files=2)
    pond.register_window_kind("months", Months())
    pond.sql("CREATE STREAM s (ts TIMESTAMP, n INTEGER) WITH (event_time='ts')")
    for state in ("lazy", "adaptive"):
        pond.sql(
            f"CREATE QUERY {state} WITH (state='{state}') AS SELECT n, sum(n) AS t FROM s [KIND months] GROUP BY n"
        )
    for day in (10, 20, 30):
        pond.ingest("s", [{"ts": dt.datetime(2024, 1, day), "n": 1}])
        pond.drain()
    pond.drain(final=True)
    for number in range(4):  # further epochs
        pond.sql(f"CREATE QUERY q{number} WITH (since='start') AS SELECT count(*) FROM s [KIND months]")
        pond.drain()
    for state in ("lazy", "adaptive"):
        assert [r[0] for r in pond.sql(f"SELECT t FROM {state} ORDER BY window_end").rows()] == [3, 2]


def test_late_rows_and_what_is_dropped(inline_pond: Factory) -> None:
    pond = inline_pond()
    pond.register_window_kind("uneven", Uneven(10, 10, 1))
    for late in ("revise", "drop"):
        pond.sql(f"CREATE STREAM s_{late} (ts TIMESTAMP, n INTEGER) WITH (event_time='ts', late='{late}')")
        pond.sql(f"CREATE QUERY q_{late} AS SELECT sum(n) AS t FROM s_{late} [KIND uneven]")
        for second, n in ((3, 1), (12, 2), (4, 4), (15, 8), (30, 16)):
            pond.ingest(f"s_{late}", [{"ts": dt.datetime(1970, 1, 1, 0, 0, second), "n": n}])
            pond.step()
        pond.sql(f"CREATE QUERY later_{late} AS SELECT sum(n) AS t FROM s_{late} [KIND uneven] WITH (since='start')")
    pond.drain()
    assert [r[:2] for r in pond.sql("SELECT t, revision FROM q_revise ALL REVISIONS").rows()] == [
        (1, 0),
        (5, 1),
        (10, 0),
    ]
    for name in ("q_drop", "later_drop"):
        assert [r[0] for r in pond.sql(f"SELECT t FROM {name} ORDER BY window_end").rows()] == [1, 10]
    assert [r[0] for r in pond.sql("SELECT t FROM later_revise ORDER BY window_end").rows()] == [5, 10]


def test_a_pond_asks_for_its_kinds(tmp_path: Path) -> None:
    def opened(**given: Any) -> Any:
        return millpond.open(str(tmp_path / "pond"), executor="inline", **given)

    pond = opened()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, n INTEGER) WITH (event_time='ts')")
    assert pond.register_window_kind("Months", Months()) == "window kind Months registered"
    assert pond.register_window_kind("months", Months()) == "window kind Months is known"
    pond.sql("CREATE QUERY q AS SELECT count(*) AS n FROM s [KIND MONTHS]")
    with pytest.raises(QueryError, match="is used by q"):
        pond.drop_window_kind("months")
    with pytest.raises(QueryError, match="other windows than when it was registered"):
        pond.register_window_kind("months", Uneven(5, 5, 1))
    pond.close()
    with pytest.raises(PondError, match=r"q uses the window kind 'Months'.*window_kinds=\{'Months'"):
        opened()
    with pytest.raises(QueryError, match="other windows"):
        opened(window_kinds={"months": Uneven(5, 5, 1)})
    pond = opened(window_kinds={"months": Months(), "uneven": Uneven(5, 5, 1)})
    pond.ingest("s", [{"ts": dt.datetime(2024, 1, 20), "n": 1}, {"ts": dt.datetime(2024, 3, 2), "n": 1}])
    pond.drain()
    assert [r[2] for r in pond.sql("SELECT * FROM q ORDER BY window_end").rows()] == [1, 1]
    pond.sql("DROP QUERY q")
    assert pond.drop_window_kind("months") == "window kind Months dropped"
    pond.close()
    pond = opened()  # `uneven` is not used by anything
    with pytest.raises(MillpondError, match="is Python code that a pond does not keep"):
        pond.sql("SELECT count(*) FROM s [KIND uneven]")
    pond.close()


class Wrong(Uneven):
    """A kind that says it is in one window more than it is."""

    def wids(self, time: int, until: int) -> range:
        """See `WindowKind`."""
        held = super().wids(time, until)
        return range(held.start, held.stop + 1)


class Missing(Uneven):
    """A kind that forgets a window."""

    def wids(self, time: int, until: int) -> range:
        """See `WindowKind`."""
        held = super().wids(time, until)
        return range(held.start, held.stop - 1) if len(held) > 1 else held


class Backwards(Uneven):
    """A kind whose ids descend with time."""

    def extent(self, wid: int) -> tuple[int, int]:
        """See `WindowKind`."""
        return super().extent(-wid)

    def wids(self, time: int, until: int) -> range:
        """See `WindowKind`."""
        last = -(time // (self.step * S))
        return range(last, last + 1)


class Endless(Uneven):
    """Windows that never end to come: what began stays in all that follow."""

    def wids(self, time: int, until: int) -> range:
        """See `WindowKind`."""
        return range(time // S, until // S)


class Coarse(Uneven):
    """A kind that is not on the grid that it names."""

    grid = 7 * S  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        (Wrong(10, 10, 1), "lies in window"),
        (Missing(3, 9, 1), "does not have window"),
        (Backwards(10, 10, 1), "in the order of ends"),
        (Endless(10, 10, 1), "at most 10000"),
        (Coarse(10, 10, 1), "is not on its grid"),
        (object(), "windows\\(\\), extent\\(\\) and wids\\(\\)"),
    ],
)
def test_an_unsound_kind_is_refused(inline_pond: Factory, kind: Any, part: str) -> None:
    with pytest.raises(QueryError, match=part):
        inline_pond().register_window_kind("wrong", kind)


def test_what_such_windows_cannot_be_asked_for(inline_pond: Factory) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, n INTEGER) WITH (event_time='ts')")
    pond.register_window_kind("months", Months())
    with pytest.raises(MillpondError, match="ends where its kind says: it is the only one"):
        pond.sql("SELECT count(*) [RANGE 1 DAY SLIDE 1 DAY], sum(n) [KIND months] FROM s")
    assert pond.sql("SELECT count(*) [KIND months] AS c, sum(n) [KIND months] AS t FROM s").rows() == []
    with pytest.raises(MillpondError, match="there is no window kind 'mont'"):
        pond.sql("SELECT count(*) FROM s [KIND mont]")
    with pytest.raises(MillpondError, match="says all of its windows by itself"):
        pond.sql(f"SELECT count(*) FROM s [KIND months SLIDE {span(S)}]")
