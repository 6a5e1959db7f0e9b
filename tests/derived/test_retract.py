"""revisions='retract': what is over a derived stream is right at once, and right again after every late row."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from statistics import median
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millpond
from millpond.operators.stores import state as stores
from tests.derived.test_derived_is_oracle import FIRST, KINDS, NAMES, some
from tests.oracle import Case, Epoch, Script, StreamSpec, assert_rows_equal, revisions, statistics
from tests.oracle.compare import normal
from tests.oracle.cql import Query, Stamped, Windowed
from tests.oracle.derived import answer_rows, in_total_order, stream_table
from tests.oracle.revisions import final_answers
from tests.properties.harness import Pond, options, pond, wanted
from tests.properties.streams import TYPES, cuts, streams
from tests.properties.test_statistics import close, plain

#: Aggregates of every form: differences, and what keeps rows.
ITEMS = (
    ("sum(c) AS a", "count(*) AS n", "count(lo) AS b"),
    ("min(c) AS a", "max(t) AS b", "list(k) AS ks"),
    ("first(lo) AS a", "last(c) AS b", "arg_max(k, c) AS m"),
    ("count(DISTINCT k) AS a", "sum(t) FILTER (WHERE c > 1) AS b", "avg(c) AS m"),
    ("median(c) AS a", "stddev_samp(c) AS b", "string_agg(k, '|') AS l"),
    ("avg(t) AS a", "count(*) FILTER (WHERE lo IS NULL) AS b", "bool_or(c > 2) AS m"),
)


@st.composite
def pipelines(draw: st.DrawFn, unit: int) -> tuple[Case, Case]:
    """A query over `s`, and one over the stream `x` of its answers."""
    slide = unit * draw(st.integers(1, 6))
    first = replace(
        FIRST, range_us=slide * draw(st.integers(1, 3)), slide_us=slide,
        having=draw(st.sampled_from([None, "count(*) > 1", "sum(n) > 0"])),
    )  # fmt: skip
    step, items = slide * draw(st.integers(1, 3)), draw(st.sampled_from(ITEMS))
    grouped = draw(st.booleans())
    second = Case(
        ("k", *items) if grouped else items, range_us=step * draw(st.integers(1, 2)), slide_us=step, stream="x",
        group_by=("k",) if grouped else (), origin_us=draw(st.sampled_from([0, 1])),
        where=draw(st.sampled_from([None, "c > 1"])), having=draw(st.sampled_from([None, "count(*) > 1"])),
    )  # fmt: skip
    return first, second


def _answers(p: Pond, case: Case, name: str = "q") -> list[tuple[Any, ...]]:
    return p.rows(f"SELECT * EXCLUDE (revision) FROM {name}")


def _disturb(data: st.DataObject, p: Pond) -> None:
    what = data.draw(st.sampled_from(["", "", "", "restart", "maintain", "drain", "pause"]))
    if what == "restart":
        p.restart()
    elif what == "maintain":
        p.pond.maintain()
    elif what == "drain":
        p.sql("DRAIN")
    elif what == "pause":
        p.sql("ALTER QUERY q PAUSE")
        p.pond.step()
        p.sql("ALTER QUERY q RESUME")


@given(st.data())
def test_windows_over_answers(data: st.DataObject) -> None:
    """Whatever comes late: the definition applied twice, live, attached later, ad hoc, over one such stream or two."""
    stream = data.draw(streams(max_rows=16, gaps=False))
    first, second = data.draw(pipelines(stream.unit))
    epochs = data.draw(cuts(stream.rows, max_epochs=6))
    attach = data.draw(st.integers(0, len(epochs)))
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 4))), compact_files=2) as p:
        p.sql(f"CREATE STREAM x AS {first.query()} WITH (revisions='retract')")
        rows, over = answer_rows(first, NAMES, stream.table), second
        if data.draw(st.booleans()):
            other, over = replace(first, having=None, where="g IS NOT NULL"), replace(second, stream="(x UNION ALL y)")
            p.sql(f"CREATE STREAM y AS {other.query()} WITH (revisions='retract')")
            rows = in_total_order([*rows, *answer_rows(other, NAMES, stream.table)])
        p.sql(over.statement())
        nested = replace(second, stream=f"({first.query()})")
        p.sql(nested.statement("nested"))
        for number, epoch in enumerate(epochs):
            if number == attach:
                p.sql(over.statement("later", since="start"))
            p.epoch(epoch)
            _disturb(data, p)
        if attach == len(epochs):
            p.sql(over.statement("later", since="start"))
        p.finish()
        expected = wanted(final_answers(second, stream_table(rows, KINDS)))
        what = f"{first.query()} / {over.query()}"
        assert_rows_equal(expected, _answers(p, second), floor=1e-9, what=what)
        assert_rows_equal(expected, _answers(p, second, "later"), floor=1e-9, what=f"later: {what}")
        if over is second:
            assert_rows_equal(expected, _answers(p, second, "nested"), floor=1e-9, what=f"nested: {what}")
            assert_rows_equal(expected, p.rows(nested.query()), floor=1e-9, what=f"nested, once: {what}")
        shown = p.sql(over.query()).table
        assert shown is not None


STATISTICS = (
    "heavy_hitters(k, 0.25) AS c0", "entropy(k) AS c1", "mode(c) AS c2", "series_corr(c, k, '{step}us') AS c3",
    "APPROX median(c) AS c4", "APPROX count(DISTINCT c) AS c5", "approx_top_k(c, 2) AS c6",
)  # fmt: skip


@given(st.data())
@settings(max_examples=max(4, settings.default.max_examples // 2))
def test_statistics_over_answers(data: st.DataObject) -> None:
    """Of what is left of two such streams; with APPROX they are exact here."""
    stream = data.draw(streams(max_rows=16, gaps=False))
    first, _ = data.draw(pipelines(stream.unit))
    assert first.slide_us is not None
    step, size = first.slide_us * data.draw(st.integers(1, 2)), first.slide_us * data.draw(st.integers(1, 4))
    case = Case(tuple(s.format(step=step) for s in STATISTICS), range_us=size, slide_us=size, stream="(x UNION ALL y)")
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 4))), compact_files=2) as p:
        p.sql(f"CREATE STREAM x AS {first.query()} WITH (revisions='retract')")
        p.sql(f"CREATE STREAM y AS {first.query()} WITH (revisions='retract')")
        p.sql(case.statement())
        p.feed(data.draw(cuts(stream.rows, max_epochs=6)))
        p.finish()
        rows = [r for r in answer_rows(first, NAMES, stream.table) for _ in "xy"]
        found = {row[1][1]: plain(row[2:]) for row in p.answers(case)}
        assert set(found) == {r.time - r.time % size + size for r in rows}
        for end, values in found.items():
            k, c = ([r.values[n] for r in rows if end - size <= r.time < end] for n in "kc")
            times = [r.time for r in rows if end - size <= r.time < end]
            counts = Counter(c)
            assert close(values, (
                statistics.heavy_hitters(k, Fraction("0.25")), statistics.entropy(k), statistics.mode(c),
                statistics.series_corr(list(zip(times, k, map(float, c), strict=True)), step),
                float(median(c)), len(counts), sorted(counts, key=lambda v: (-counts[v], v))[:2],
            )), (end, values, case.query())  # fmt: skip


@given(st.data())
def test_what_is_left_of_the_stream(data: st.DataObject) -> None:
    """Its rows, less those taken back, are the answers that hold; every row taken back was there before."""
    stream = data.draw(streams(max_rows=16, gaps=False))
    first, _ = data.draw(pipelines(stream.unit))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 4)))
    epochs = (*data.draw(cuts(stream.rows)), Epoch((), ended=True))
    log = revisions(first, TYPES, Script(spec, epochs))
    with pond(options(lateness=spec.lateness)) as p:
        p.sql(f"CREATE STREAM x AS {first.query()} WITH (revisions='retract')")
        for number, epoch in enumerate(epochs[:-1]):
            p.epoch(epoch)
            if number in data.draw(some):
                p.restart()
        p.finish()
        left: Counter[str] = Counter()
        rows = p.rows(f"SELECT op, window_start, window_end, {', '.join(NAMES)} FROM x")
        for op, *row in rows:
            left[repr(list(map(normal, row)))] += 1 if op == "+" else -1
        kept = answer_rows(first, NAMES, stream.table)
        expected = [[("time", r.values["window_start"]), ("time", r.time), *(r.values[n] for n in NAMES)] for r in kept]
        assert +left == Counter(repr(list(map(normal, row))) for row in expected) and all(n >= 0 for n in left.values())
        changed = sum(1 for r in log if r.op == "+" and r.revision > 0)
        gone = sum(1 for r in log if r.op == "-")
        assert sum(1 for op, *_ in rows if op == "-") <= changed + gone


#: Relations over the stream of answers, for the oracle over `w`.
SHAPES = (
    "SELECT {r}(k, c) FROM {x} AS x",
    "SELECT {r}(count(*) AS n, sum(c) AS c) FROM {x} AS x",
    "SELECT {r}(k, max(c) AS m) FROM {x} AS x WHERE c > 1 GROUP BY k",
)


@given(data=st.data())
@settings(max_examples=max(4, settings.default.max_examples // 2))
def test_relations_over_answers(data: Any) -> None:
    shape, operator = data.draw(st.sampled_from(SHAPES)), data.draw(st.sampled_from(["ISTREAM", "DSTREAM"]))
    window = data.draw(st.sampled_from(["[RANGE 3 MICROSECONDS]", "[RANGE UNBOUNDED]", "[RANGE 8 MICROSECONDS]"]))
    size = {"[RANGE 3 MICROSECONDS]": ("range", 3), "[RANGE 8 MICROSECONDS]": ("range", 8)}
    times = st.tuples(st.integers(0, 9), st.sampled_from(["a", "b"]))
    batches = data.draw(st.lists(st.lists(times, min_size=1, max_size=4), min_size=1, max_size=6))
    copies = data.draw(st.integers(1, 2))
    with pytest.MonkeyPatch.context() as patch, pond("event_time='ts'", compact_files=2) as p:
        patch.setattr(stores, "PRUNED", 2)
        p.sql("CREATE STREAM r (ts TIMESTAMP, k TEXT) WITH (event_time='ts')")
        for name in ("x", "y")[:copies]:
            p.sql(
                f"CREATE STREAM {name} AS SELECT k, count(*) AS c FROM r [RANGE TUMBLING 2 MICROSECONDS] GROUP BY k"
                " WITH (revisions='retract')"
            )
        read = ("x", "(x UNION ALL y)")[copies - 1]
        p.sql(f"CREATE QUERY q AS {shape.format(r=operator, x=f'{read} {window}')}")
        epoch = dt.datetime(1970, 1, 1)
        for batch in batches:
            p.pond.ingest("r", [{"ts": epoch + dt.timedelta(microseconds=t), "k": k} for t, k in batch])
            p.pond.step()
            if data.draw(st.integers(0, 3)) == 0:
                p.restart()
            if data.draw(st.booleans()):
                p.sql("DRAIN")
        p.finish()
        counts: Counter[tuple[int, str]] = Counter((t - t % 2 + 2, k) for batch in batches for t, k in batch)
        answers = sorted(list(counts.items()) * copies)
        rows = [Stamped(end, n, (k, c)) for n, ((end, k), c) in enumerate(answers)]
        kinds = {"k": "VARCHAR", "c": "BIGINT"}
        naive = shape.replace("{r}(", "(").replace("({", "{").format(x="w")
        at = naive.index("(")
        naive = naive[:at] + " " + naive[at + 1 :]
        close = naive.index(") FROM")
        naive = naive[:close] + " " + naive[close + 1 :]
        query = Query(naive, {"w": Windowed(kinds, rows, size.get(window, ("unbounded", 0)))})
        expected = getattr(query, operator.lower())(-1, 25)
        got: Counter[Any] = Counter()
        for moment, *row, _ in p.pond.sql("SELECT * FROM q").rows():
            got[int((moment - epoch) / dt.timedelta(microseconds=1)), tuple(row)] += 1
        assert got == expected, shape


def test_relations_count_a_row_that_comes_while_nothing_is_announced() -> None:
    """It is late behind a bound that is before all times; a restart forgets what was kept."""
    with pond("event_time='ts'", compact_files=2) as p, pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "PRUNED", 2)
        p.sql("CREATE STREAM r (ts TIMESTAMP, k TEXT) WITH (event_time='ts')")
        counts = "SELECT k, count(*) AS c FROM r [RANGE TUMBLING 2 MICROSECONDS] GROUP BY k"
        p.sql(f"CREATE STREAM x AS {counts} WITH (revisions='retract')")
        p.sql("CREATE QUERY q AS SELECT ISTREAM(k, c) FROM x [RANGE 3 MICROSECONDS]")
        for time in (2, 0):
            p.pond.ingest("r", [{"ts": dt.datetime(1970, 1, 1, 0, 0, 0, time), "k": "a"}])
            p.pond.step()
            p.restart()
        p.finish()
        assert sorted((at.microsecond, k, c) for at, k, c, _ in p.pond.sql("SELECT * FROM q").rows()) == [
            (2, "a", 1), (4, "a", 1),
        ]  # fmt: skip


def test_rows_of_it_hand_on_what_takes_them_back() -> None:
    with pond("event_time='ts'") as p:
        p.sql("CREATE STREAM x AS SELECT k, count(*) AS c FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k"
              " WITH (revisions='retract')")  # fmt: skip
        with pytest.raises(millpond.StatementError, match="has to be handed on"):
            p.sql("CREATE STREAM y AS SELECT window_end, k FROM x")
        p.sql("CREATE STREAM y AS SELECT window_end, k, c, op FROM x WHERE c > 1")
        p.sql("CREATE QUERY q AS SELECT count(*) AS n, list(c) AS cs FROM y [RANGE TUMBLING 1 MINUTE]")
        for seconds in ((1, 2, 15), (3, 45), (4, 130)):
            p.pond.ingest("s", [{"ts": dt.datetime(2026, 1, 1, 12, 0, 0) + dt.timedelta(seconds=t), "k": "a"}
                                for t in seconds])  # fmt: skip
            p.sql("DRAIN")
        p.finish()
        assert p.pond.sql("SELECT n, cs FROM q").rows() == [(1, [4])]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE QUERY q AS SELECT count(*) FROM x [ROWS 3 SLIDE 1]", "windows that end with rows are not available"),
        ("CREATE QUERY q AS SELECT count(*) FROM (x UNION ALL plain) [RANGE TUMBLING 1 MINUTE]",
         "x takes rows back and plain does not"),
        ("SELECT count(*) FROM (x UNION ALL elsewhere)", "stand in different places"),
        ("CREATE QUERY q WITH (empty='report') AS SELECT count(*) FROM x [RANGE TUMBLING 1 MINUTE]", "empty='report'"),
        ("CREATE STREAM z AS SELECT k FROM s [RANGE TUMBLING 1 MINUTE] GROUP BY k"
         " WITH (revisions='retract', late='drop')", "late='drop' would leave it out"),
    ],
)  # fmt: skip
def test_what_is_not_available_says_so(text: str, message: str) -> None:
    with pond("event_time='ts'") as p:
        p.sql("CREATE STREAM x AS SELECT k, count(*) AS c FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k"
              " WITH (revisions='retract')")  # fmt: skip
        p.sql("CREATE STREAM log AS SELECT k, count(*) AS c FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k")
        p.sql("CREATE STREAM plain AS SELECT window_start, window_end, k, c, op FROM log")
        p.sql("CREATE STREAM elsewhere AS SELECT window_start, window_end, op, c, k FROM x")
        with pytest.raises(millpond.StatementError, match=message):
            p.sql(text)
