"""Streams that are derived of one with bounds for groups have these bounds, too: their groups wait for no other one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import Row, Script, assert_rows_equal, trace
from tests.oracle.progress import FOREVER, NEVER, Step
from tests.oracle.revisions import revisions_by_group
from tests.progress.ponds import TYPES, Kind, S, epochs, kinds, marked_pond, rows, table_of
from tests.progress.test_engine import case_of
from tests.properties.harness import wanted

GROUPS = ("a", "b", None)


def bound_of(step: Step, group: str | None) -> int:
    """How far a group is after an epoch."""
    return step.after if group is None else step.of(group)[1]


@given(st.data())
def test_rows_of_a_stream_have_its_bounds_of_groups(data: st.DataObject) -> None:
    """A query over its rows, under whatever name, has the log of one over the stream, epoch by epoch."""
    kind, case = data.draw(kinds(grouped=True)), case_of(data, grouped=True)
    script = Script(kind.spec, data.draw(epochs(data.draw(rows()))))
    log = revisions_by_group(case, TYPES, script, "k")
    over = replace(case, stream="x", select=("g AS c0", *case.select[1:]), group_by=("g",))
    start = data.draw(st.integers(0, len(script.epochs)))
    with marked_pond(kind.options) as pond:
        pond.sql("CREATE STREAM f AS SELECT k, n, ts FROM s; CREATE STREAM x AS SELECT ts, n, k AS g FROM f")
        pond.sql(case.statement("over_s"))
        pond.sql(over.statement("q"))
        for number, epoch in enumerate(script.epochs):
            if data.draw(st.integers(0, 4)) == 0:
                pond.restart()
            if number == start:
                pond.sql("CREATE STREAM y AS SELECT k AS g, n, ts FROM s WITH (since='start')")
            pond.epoch(epoch)
            pond.settle()
            what = f"{kind.options}: {case.query()}"
            assert_rows_equal(pond.answers(case, "over_s"), pond.answers(over), what=what)
        expected = wanted([(r.start, r.end, r.revision, r.op, *r.items) for r in log if r.op == "+"])
        assert_rows_equal(expected, [r for r in pond.log(over) if r[3] == "+"], what=what)
        # Of rows that were dropped before a stream was made, its past does not know that they were late.
        if start < len(script.epochs) and kind.spec.late == "revise":
            pond.sql(replace(over, stream="y").statement("later", since="start"))
            pond.settle()
            assert_rows_equal(pond.answers(over), pond.answers(over, "later"), what=f"back-fill, {what}")


@given(st.data())
def test_answers_have_the_bounds_of_groups_of_what_they_are_of(data: st.DataObject) -> None:
    """Windows over answers: of each group those are out, and no others, that its own bound allows."""
    kind, case = data.draw(kinds(grouped=True)), case_of(data, grouped=True)
    script, size = Script(kind.spec, data.draw(epochs(data.draw(rows())))), case.slide_us * data.draw(st.integers(1, 3))
    with marked_pond(kind.options) as pond:
        pond.sql(f"CREATE STREAM x AS {case.query()}")
        pond.sql(f"CREATE QUERY q AS SELECT c0, count(*) AS n FROM x [RANGE TUMBLING {size} MICROSECONDS] GROUP BY c0")
        for epoch, step in zip(script.epochs, trace(script), strict=True):
            if data.draw(st.integers(0, 4)) == 0:
                pond.restart()
            pond.epoch(epoch)
            pond.settle()
            counts: dict[tuple[Any, Any], int] = {}
            for at, group in pond.rows("SELECT epoch_us(window_end), c0 FROM x"):
                end = (at // size + 1) * size
                # The next answer ends at the next multiple of the slide.
                bound = bound_of(step, group)
                if bound >= FOREVER or end <= (bound // case.slide_us + 1) * case.slide_us:
                    counts[end, group] = counts.get((end, group), 0) + 1
            expected = [(end, group, count) for (end, group), count in counts.items()]
            got = pond.rows("SELECT epoch_us(window_end), c0, n FROM q")
            assert sorted(got, key=str) == sorted(expected, key=str), f"{kind.options}: {case.query()}"


@given(st.data())
def test_pairs_have_the_bounds_of_groups_of_both_streams(data: st.DataObject) -> None:
    """Windows over joined rows, which are a stream without a name: a group is as far as the stream that is behind."""
    given_kinds = {name: data.draw(kinds(grouped=True, late="revise")) for name in "sr"}
    alone = {"lateness": None, "lateness_rows": None, "only": True} if data.draw(st.booleans()) else {}
    # The clock of an epoch would be one for both streams.
    still = {"idle": None, "timer": None, "lull": None}
    given_kinds = {name: Kind(replace(kind.spec, **still, **alone)) for name, kind in given_kinds.items()}
    scripts = {name: Script(kind.spec, data.draw(epochs(data.draw(rows())))) for name, kind in given_kinds.items()}
    left = {name: list(zip(script.epochs, trace(script), strict=True)) for name, script in scripts.items()}
    reach, size = (data.draw(st.integers(1, 10)) * S for _ in range(2))
    came: dict[str, list[Row]] = {"s": [], "r": []}
    steps = {name: Step(NEVER, NEVER, (), (), (), None) for name in "sr"}
    with marked_pond(given_kinds["s"].options) as pond:
        columns = "ts TIMESTAMP, k VARCHAR, n BIGINT, kind INTEGER, wm TIMESTAMP"
        pond.sql(f"CREATE STREAM r ({columns}) WITH ({given_kinds['r'].options})")
        window = f"[RANGE {reach} MICROSECONDS]"
        pond.sql(f"""
            CREATE QUERY q AS SELECT k, count(*) AS c
            FROM (SELECT PAIRS(a.k, a.n) FROM s {window} AS a JOIN r {window} AS b ON a.k = b.k)
              [RANGE TUMBLING {size} MICROSECONDS]
            GROUP BY k WITH (since='start')
        """)
        while any(left.values()):
            name = data.draw(st.sampled_from([n for n, more in left.items() if more]))
            epoch, steps[name] = left[name].pop(0)
            pond.clock.advance(max(0, epoch.clock - pond.clock()))
            for item in epoch.items:
                pond.pond.ingest(name, table_of(item.rows), partition=item.partition)
            pond.pond.step()
            pond.settle()
            came[name] += steps[name].admitted
            counts: dict[tuple[int, Any], int] = {}
            for a in came["s"]:
                for b in came["r"]:
                    group, end = a.values["k"], (max(a.time, b.time) // size + 1) * size
                    known = min(bound_of(step, group) for step in steps.values())
                    if group is not None and group == b.values["k"] and abs(a.time - b.time) <= reach and end <= known:
                        counts[end, group] = counts.get((end, group), 0) + 1
            expected = [(end, group, count) for (end, group), count in counts.items()]
            got = pond.rows("SELECT epoch_us(window_end), k, c FROM q")
            assert sorted(got, key=str) == sorted(expected, key=str), given_kinds
