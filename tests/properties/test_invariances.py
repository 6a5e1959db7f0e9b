"""What must be equal to what: order of arrival, epoch cuts, neighbours, restarts, back-fill, compaction, replay."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import Case, Row, assert_rows_equal
from tests.oracle.revisions import final_answers
from tests.properties.harness import Pond, floor, options, pond, wanted
from tests.properties.queries import cases
from tests.properties.streams import Drawn, cuts, permutations, streams

DAY = 86_400_000_000


def _fits(stream: Drawn, *queries: Case) -> bool:
    """Whether no order of these rows makes one too late for a revision."""
    times = [r.time for r in stream.rows]
    return max(times) - min(times) < min(max(DAY, 10 * (c.range_us or 0)) for c in queries)


def _expect(p: Pond, case: Case, rows: tuple[Row, ...], stream: Drawn, name: str = "q") -> None:
    expected = wanted(final_answers(case, stream.table.only(rows)))
    assert_rows_equal(expected, p.answers(case, name), floor=floor(rows), what=case.query())


@given(st.data())
def test_permuted_arrival_and_other_cuts(data: st.DataObject) -> None:
    stream = data.draw(streams(gaps=False))
    case = data.draw(cases(stream.unit))
    rows = data.draw(permutations(stream.rows))
    if not _fits(stream, case):
        return
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 50)))) as p:
        p.sql(case.statement())
        p.feed(data.draw(cuts(rows, max_epochs=8)))
        p.finish()
        _expect(p, case, stream.rows, stream)


@given(st.data())
def test_restarts(data: st.DataObject) -> None:
    stream = data.draw(streams())
    case = data.draw(cases(stream.unit))
    if not _fits(stream, case):
        return
    epochs = data.draw(cuts(stream.rows))
    with pond(options(lateness=stream.unit)) as p:
        p.sql(case.statement())
        p.feed(epochs, restarts=data.draw(st.lists(st.integers(0, len(epochs)), max_size=3)))
        if data.draw(st.booleans()):
            p.restart()
        p.finish()
        p.restart()
        _expect(p, case, stream.rows, stream)


@given(st.data())
def test_compaction(data: st.DataObject) -> None:
    stream = data.draw(streams())
    queries = data.draw(st.lists(cases(stream.unit), min_size=1, max_size=2))
    if not _fits(stream, *queries):
        return
    epochs = data.draw(cuts(stream.rows, max_epochs=8))
    with pond(options(lateness=stream.unit), compact_files=2) as p:
        for i, case in enumerate(queries):
            p.sql(case.statement(f"q{i}"))
        for epoch in epochs:
            p.epoch(epoch)
            if data.draw(st.booleans()):
                p.pond.maintain()
        p.finish()
        p.pond.maintain()
        for i, case in enumerate(queries):
            _expect(p, case, stream.rows, stream, f"q{i}")
        # The archive holds what it held, and queries that come now are answered from it.
        p.sql(queries[0].statement("later", since="start"))
        p.settle()
        _expect(p, queries[0], stream.rows, stream, "later")


@given(st.data())
def test_neighbours_come_and_go(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16))
    case = data.draw(cases(stream.unit))
    others = data.draw(st.lists(cases(stream.unit), min_size=1, max_size=3))
    if not _fits(stream, case, *others):
        return
    epochs = data.draw(cuts(stream.rows))
    with pond(options(lateness=stream.unit)) as p:
        p.sql(case.statement())
        alive: set[int] = set()
        for epoch in epochs:
            for i, other in enumerate(others):
                if data.draw(st.booleans()):
                    p.sql(f"DROP QUERY other{i}" if i in alive else other.statement(f"other{i}"))
                    alive ^= {i}
            p.epoch(epoch)
        p.finish()
        _expect(p, case, stream.rows, stream)


@given(st.data())
def test_back_fill_at_any_time(data: st.DataObject) -> None:
    stream = data.draw(streams())
    queries = data.draw(st.lists(cases(stream.unit), min_size=1, max_size=3))
    if not _fits(stream, *queries):
        return
    epochs = data.draw(cuts(stream.rows))
    arrivals = [data.draw(st.integers(0, len(epochs))) for _ in queries]
    with pond(options(lateness=stream.unit)) as p:
        for number, epoch in enumerate([*epochs, None]):
            for i, case in enumerate(queries):
                if arrivals[i] == number:
                    p.sql(case.statement(f"q{i}", since="start"))
            if epoch is not None:
                p.epoch(epoch)
        p.finish()
        p.settle()
        for i, case in enumerate(queries):
            _expect(p, case, stream.rows, stream, f"q{i}")


@given(st.data())
def test_queries_answer_what_is_open_at_their_registration(data: st.DataObject) -> None:
    from tests.oracle import Script, StreamSpec, trace

    stream = data.draw(streams(gaps=False))
    case = data.draw(cases(stream.unit))
    if not _fits(stream, case):
        return
    epochs = data.draw(cuts(stream.rows))
    arrival = data.draw(st.integers(0, len(epochs)))
    spec = StreamSpec(lateness=stream.unit)
    bound = trace(Script(spec, epochs[:arrival]))[-1].after if arrival else None
    with pond(options(lateness=stream.unit)) as p:
        p.feed(epochs[:arrival])
        p.sql(case.statement())
        p.feed(epochs[arrival:])
        p.finish()
        p.settle()
        # Windows closed before it came are not promised; a late row may have made one of them appear.
        everything = final_answers(case, stream.table)
        live = [r for r in everything if bound is None or r[1] > bound]
        got = [r for r in p.answers(case) if bound is None or r[1][1] > bound]
        assert_rows_equal(wanted(live), got, floor=floor(stream.rows), what=case.query())


@given(st.data())
def test_pause_and_resume(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16, gaps=False))
    case = data.draw(cases(stream.unit))
    if not _fits(stream, case):
        return
    epochs = data.draw(cuts(stream.rows))
    pause, resume = sorted(data.draw(st.tuples(st.integers(0, len(epochs)), st.integers(0, len(epochs)))))
    with pond(options(lateness=stream.unit)) as p:
        p.sql(case.statement())
        p.feed(epochs[:pause])
        p.sql("ALTER QUERY q PAUSE")
        p.feed(epochs[pause:resume])
        p.sql("ALTER QUERY q RESUME")
        p.feed(epochs[resume:])
        p.finish()
        p.settle()
        _expect(p, case, stream.rows, stream)


@given(st.data())
def test_replay_is_byte_equal(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16))
    queries = data.draw(st.lists(cases(stream.unit), min_size=1, max_size=2))
    epochs = data.draw(cuts(stream.rows))
    seen = []
    for _ in range(2):
        with pond(options(lateness=stream.unit)) as p:
            for i, case in enumerate(queries):
                p.sql(case.statement(f"q{i}"))
            p.feed(epochs)
            p.finish()
            seen.append(files(p.folder))
    assert seen[0] == seen[1]


def files(folder: Path) -> dict[str, bytes]:
    """Data files of the pond by path; logs of commits name wall-clock times and are left out."""
    return {
        str(f.relative_to(folder)): f.read_bytes()
        for f in sorted(folder.rglob("*.parquet"))
        if "_delta_log" not in f.parts
    }
