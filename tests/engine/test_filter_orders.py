"""Orders of filters in a pond: learnt between epochs, kept over restarts, and of no influence on any answer."""

import builtins
import datetime as dt
import json
import os
import random
import re

import numpy as np
import pyarrow as pa
import pytest

import millpond
from millpond.adapt import filter_plans
from millpond.engine.control.epoch import begin_epoch, run_epoch
from millpond.manifests.records import read_manifest
from millpond.operators.filters import filter_orders
from millpond.operators.filters.subjects import subjects
from millpond.support.errors import StatementError
from tests.engine.clocks import charged
from tests.engine.written import state_bytes

T0 = dt.datetime(2024, 5, 1)
N = 3

#: Epochs after which an order follows what is seen.
EPOCHS = 8


def lines(pond, statement):
    """What EXPLAIN says, without the indentation of parts."""
    return [line.strip() for (line,) in pond.sql(statement).rows()]


def bit(value, number):
    from tests.engine.clocks import charge

    charge(1e-5)
    return bool(value >> number & 1)


@pytest.fixture(autouse=True)
def _time_is_what_calls_are_charged():
    with charged():
        yield


def opened(path):
    return millpond.open(path, executor="inline", shards=1)


def declare(path, adapt="a_greedy"):
    pond = opened(path)
    pond.register_function("bit", bit, arguments=["BIGINT", "BIGINT"])
    where = " AND ".join(f"bit(v, {i})" for i in range(N))
    # What adapts nothing takes no options of adapting.
    eager = "" if adapt == "off" else ", adapt_probability = 1, adapt_window = 400, adapt_budget = 1"
    wide = "" if adapt == "off" else ", adapt_window = 300"
    pond.sql(f"""
        CREATE STREAM s (ts TIMESTAMP, k INTEGER, v BIGINT) WITH (event_time = 'ts', lateness = '1 minute');
        CREATE QUERY w WITH (adapt = '{adapt}'{eager})
            AS SELECT k, count(*) AS n, sum(v) AS total FROM s [TUMBLING 10 SECONDS] WHERE k < 3 AND {where} GROUP BY k;
        CREATE QUERY r AS SELECT ISTREAM(k, v) FROM s [RANGE 5 SECONDS] WHERE {where};
        CREATE STREAM d WITH (adapt = '{adapt}'{wide}) AS SELECT ts, k, v FROM s WHERE {where} AND k = 1;
    """)  # fmt: skip
    return pond


def batch(number, flipped, rows=600):
    rng = np.random.default_rng(number)
    share = [0.97, 0.7, 0.05]
    bits = rng.random((rows, N)) < np.array(share[::-1] if flipped else share)
    times = [T0 + dt.timedelta(seconds=number, milliseconds=int(m)) for m in rng.integers(0, 1000, rows)]
    v = (bits * (1 << np.arange(N))).sum(axis=1) + 8 * rng.integers(0, 100, rows)
    return pa.table({"ts": pa.array(times, pa.timestamp("us")), "k": rng.integers(0, 4, rows).astype(np.int32), "v": v})


def answers(pond):
    shown = ["SELECT * FROM w ORDER BY ALL", "SELECT * FROM r ORDER BY ALL", "SELECT k, v FROM d ORDER BY ALL"]
    return [pond.sql(text).rows() for text in shown]


def subject_of(pond, query):
    """What evaluates the condition of a query; the names of subjects are hashes, and each has its own options."""
    return next(s.name for s in subjects(pond._core.catalog) if s.users == (query,))


def run(path, way, drawn=False):
    """What eight batches give, with kills and restarts in between; `drawn`: in orders that are drawn for each epoch."""
    rng = random.Random(way)
    pond = declare(path, way)
    for number in range(8):
        pond.ingest("s", batch(number, number >= 4))
        if drawn:
            core = pond._core
            chosen = core.controllers.filters.plans
            core.controllers.filters.plans = lambda c, chosen=chosen: {
                name: type(plan)(tuple(rng.sample(plan.order, N)), 0.0) for name, plan in chosen(c).items()
            }
        epoch = begin_epoch(pond._core)
        if rng.random() < 0.4:  # killed with its manifest written; what it had in memory is gone
            pond._core.close()
            pond = opened(path)
            assert read_manifest(path, epoch).filters
        run_epoch(pond._core, epoch)
        pond.step()
    pond.sql("DRAIN FINAL")
    found = answers(pond)
    pond.close()
    return found


@pytest.fixture(scope="module")
def in_drawn_orders(tmp_path_factory):
    return run(tmp_path_factory.mktemp("drawn") / "pond", "a_greedy", drawn=True)


@pytest.mark.parametrize("way", ["a_greedy", "sweep", "independent", "local_swaps", "auto", "off"])
def test_answers_do_not_depend_on_the_order(tmp_path, in_drawn_orders, way):
    found = run(tmp_path / "pond", way)
    assert found == in_drawn_orders
    assert found[0] and found[1] and found[2]


def test_conditions_over_windows_that_end_with_rows_choose_among_all_rows(tmp_path):
    called = " AND ".join(f"bit(v, {i})" for i in range(N))
    plain = " AND ".join(f"(v >> {i}) & 1 = 1" for i in range(N))
    with opened(tmp_path / "pond") as pond:
        pond.register_function("bit", bit, arguments=["BIGINT", "BIGINT"])
        pond.sql("CREATE STREAM s (ts TIMESTAMP, k INTEGER, v BIGINT) WITH (event_time = 'ts', lateness = '1 minute')")
        for name, where in (("c", called), ("p", plain)):
            pond.sql(f"""CREATE QUERY {name} AS SELECT k, count(*) AS n, sum(v) AS total
                         FROM s [ROWS 100 SLIDE 50] WHERE {where} GROUP BY k""")
        for number in range(2):
            pond.ingest("s", batch(number, number > 0, rows=300))
            pond.step()
        pond.sql("DRAIN FINAL")
        found = pond.sql("SELECT * FROM c ORDER BY ALL").rows()
        assert found and found == pond.sql("SELECT * FROM p ORDER BY ALL").rows()
        assert pond._core.controllers.filters.of(pond._core.catalog, subject_of(pond, "c"))[2].rows == 300


CQL = {
    "r": "SELECT ISTREAM(k, v) FROM s [RANGE 2 SECONDS] WHERE k < 3 AND {0} AND NOT {1}",
    "n": "SELECT ISTREAM(k, v) FROM s [ROWS 50] WHERE NOT ({0} AND k > 1) AND {2}",
    "p": "SELECT k, max(v) AS top FROM s [PARTITION BY k ROWS 7] WHERE {0} AND v < 500 GROUP BY k",
    "j": "SELECT ISTREAM(a.k, a.v AS v, b.v AS w) FROM s [ROWS 40] a, s [RANGE 1 SECOND] b"
    " WHERE a.k = b.k AND {a0} AND NOT {b1} AND b.v % 3 = 0",
    "u": "SELECT ISTREAM(v) FROM (s UNION ALL s2) [ROWS 30] WHERE {1}",
}


def cql(text, how):
    called = {str(i): how.format(c="v", i=i) for i in range(N)}
    called |= {f"{a}{i}": how.format(c=f"{a}.v", i=i) for a in "ab" for i in range(2)}
    return re.sub(r"\{(\w\d?)\}", lambda m: called[m[1]], text)


def test_cql_asks_a_filter_once_for_a_row_whatever_its_windows(tmp_path):
    """Also where windows end with rows: what was asked is kept with the row. Against the same conditions in SQL."""
    calls = []
    builtins.calls_of_bit = calls  # what is registered is a copy of the function, with what it refers to

    def counted(value, number):
        import builtins

        builtins.calls_of_bit.append(number)
        return bool(value >> number & 1)

    pond = opened(tmp_path / "pond")
    pond.register_function("bit", counted, arguments=["BIGINT", "BIGINT"])
    for name in ("s", "s2"):
        pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, k INTEGER, v BIGINT) WITH (event_time = 'ts', lateness = '1 s')")
    rows = 60

    def create(prefix, how, names=CQL, extra=""):
        for name in names:
            pond.sql(f"CREATE QUERY {prefix}_{name} {extra} AS {cql(CQL[name], how)}")

    create("called", "bit({c}, {i})")
    create("plain", "(({c} >> {i}) & 1 = 1)")
    for number in (0, 1, 0):  # the third is late
        calls.clear()
        data = batch(number, number > 0, rows)
        pond.ingest("s", data)
        pond.ingest("s2", data)
        pond.step()
        # r: 2 filters, n: 2, p: 1, j: 2 over two inputs, u: 1 over two streams; and the rows that are profiled.
        assert len(calls) < (2 + 2 + 1 + 2 + 2) * rows + 2 * rows
        if number == 1:
            pond._core.close()  # killed
            pond = opened(tmp_path / "pond")
    told = lines(pond, "EXPLAIN called_n")
    assert any(line.startswith("filters, in this order: ") and line.count("bit(") == 2 for line in told)
    assert any(line.startswith("filter: ") and "asked when a row comes and kept with it" in line for line in told)
    assert not any("_holds" in line or "udf__" in line for line in told)
    create("later", "bit({c}, {i})", "nj", "WITH (since = '2024-05-01')")
    pond.sql("DRAIN FINAL")
    for name in CQL:
        found = pond.sql(f"SELECT * FROM called_{name} ORDER BY ALL").rows()
        assert found and found == pond.sql(f"SELECT * FROM plain_{name} ORDER BY ALL").rows()
        if name in "nj":
            backfilled = pond.sql(f"SELECT * FROM later_{name} ORDER BY ALL").rows()
            assert [row[:-1] for row in found] == [row[:-1] for row in backfilled]  # without the revision
            asked = [sorted(pond.sql(f"INVOKE {p}_{name}").rows()) for p in ("called", "plain")]
            assert asked[0] == asked[1]
    pond.close()


def test_the_order_follows_what_is_seen_and_is_told(tmp_path):
    pond = declare(tmp_path / "pond")
    # One has all dropped rows profiled; the other has the defaults, where 600 rows do not pay for a look in each epoch.
    number, subject, usual = 0, subject_of(pond, "w"), subject_of(pond, "r")
    for flipped, first in ((False, 2), (True, 0)):
        for _ in range(EPOCHS):
            pond.ingest("s", batch(number, flipped))
            pond.drain()
            number += 1
            plans = read_manifest(tmp_path / "pond", pond._core.epochs.last_manifest).filters
            assert len(plans) == 3
        assert [pond._core.controllers.filters.of(pond._core.catalog, s)[1].order[0] for s in (subject, usual)] == [
            first,
            first,
        ]
    told = lines(pond, "EXPLAIN ANALYZE w")
    assert any(line.startswith('filters, in this order: bit("v", 0)') for line in told)
    assert any(line.startswith("order: kept by a_greedy: p = 1, window 400") for line in told)
    assert any(line.startswith("changed after epoch") and 'to bit("v", 0)' in line for line in told)
    assert any(line.startswith("best order that never changes") for line in told)
    assert not any("udf__" in line for line in told)
    log = pond.plans("w").to_pylist()
    assert [e["plan"][0] for e in log if e["changed"]][-1] == 'bit("v", 0)' and len(log) >= 2
    assert dict(log[-1]["statistics"]).keys() == {f'bit("v", {i})' for i in range(N)}
    assert {line.split(":")[0] for line in lines(pond, "EXPLAIN ANALYZE r")} >= {
        "filters, in this order",
        "order",
    }
    told = lines(pond, "EXPLAIN ANALYZE d")
    assert any("profiling" in line for line in told)
    assert any(line.startswith("order: kept by a_greedy: p = 0.01, window 300") for line in told)
    pond._core.close()  # killed
    again = opened(tmp_path / "pond")
    assert again.plans("w").to_pylist() == log
    again.ingest("s", batch(number + 8, True))
    epoch = begin_epoch(again._core)
    order = read_manifest(tmp_path / "pond", epoch).filters[subject].order
    assert [f'bit("v", {i})' for i in order] == log[-1]["plan"]
    run_epoch(again._core, epoch)
    again.sql("ALTER QUERY w SET (adapt = 'sweep', adapt_alpha = 0.8)")
    told = lines(again, "EXPLAIN w")
    assert "order: kept by sweep: p = 1, window 400 profile tuples, alpha = 0.8" in told
    again.close()


def test_epochs_of_few_rows_tell_what_a_dear_filter_costs(tmp_path):
    """With fewer rows than a time is believed of, what took long is believed all the same."""

    def dear(v):
        from tests.engine.clocks import charge

        charge(0.0005)
        return bool(v & 1)

    with opened(tmp_path / "pond") as pond:
        pond.register_function("dear", dear, arguments=["BIGINT"])
        pond.register_function("cheap", lambda v: bit(v, 1), arguments=["BIGINT"])
        pond.sql("CREATE STREAM s (ts TIMESTAMP, k INTEGER, v BIGINT) WITH (event_time = 'ts')")
        pond.sql("CREATE QUERY q AS SELECT count(*) AS n FROM s [TUMBLING 10 SECONDS] WHERE dear(v) AND cheap(v)")
        for number in range(10):
            pond.ingest("s", batch(number, False, rows=100))
            pond.step()
        assert subject_order(pond, "q") == [1, 0]


def subject_order(pond, name):
    return list(pond._core.controllers.filters.of(pond._core.catalog, subject_of(pond, name))[1].order)


def test_a_query_with_other_options_has_its_condition_to_itself(tmp_path):
    def states(pond):
        queries = [pond._core.catalog.query(name) for name in "abcxyz"]
        return [q.synopsis or q.inputs[0] for q in queries]

    with opened(tmp_path / "pond") as pond:
        pond.register_function("bit", bit, arguments=["BIGINT", "BIGINT"])
        pond.sql("CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time = 'ts')")
        for names, text in (("abc", "count(*) AS n FROM s [TUMBLING 1 SECOND]"), ("xyz", "ISTREAM(v) FROM s [ROWS 9]")):
            for name, way in zip(names, ("a_greedy", "a_greedy", "sweep"), strict=True):
                pond.sql(f"CREATE QUERY {name} WITH (adapt = '{way}') AS SELECT {text} WHERE bit(v, 0) AND bit(v, 1)")
        a, b, c, x, y, z = states(pond)
        assert a == b != c and x == y != z
        assert [line for line in lines(pond, "EXPLAIN c") if line.startswith("order: kept by sweep: ")]
        pond.sql("ALTER QUERY b SET (adapt = 'off')")
        told = next(line for line in lines(pond, "EXPLAIN b") if line.startswith("order: "))
        assert told.startswith("order: kept by a_greedy") and "as a wants it" in told
        pond.ingest("s", [{"ts": T0, "v": 3}])
        pond.step()
        pond.sql("ALTER SYSTEM SET share = off")
        pond.step()
        assert len(set(states(pond))) == 6
        pond.sql("ALTER SYSTEM SET share = on")
        pond.step()
        a, b, c, x, y, z = states(pond)
        assert len({a, b, c}) == 3 and x == y != z


def test_a_repeated_epoch_writes_the_same_bytes(tmp_path):
    pond = declare(tmp_path / "pond")
    for number in range(3):
        pond.ingest("s", batch(number, False))
        pond.step()
    pond.ingest("s", batch(3, True))
    epoch, core = begin_epoch(pond._core), pond._core
    once = core.executor.run
    runs = []

    def run(*arguments, **more):
        runs.append(once(*arguments, **more))
        files = state_bytes(tmp_path / "pond")
        again = once(*arguments, **more)
        assert state_bytes(tmp_path / "pond") == files
        return again

    core.executor.run = run
    run_epoch(core, epoch)
    assert runs
    pond.close()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("adapt = 'greedy'", "option 'adapt' cannot be 'greedy'"),
        ("adapt_probability = 2", "'2' is not a number from 0 to 1"),
        ("adapt_alpha = 0", "'0' is not a number more than 0 and at most 1"),
        ("adapt_window = 0", "'0' is not a whole number from 1 to 999,999,999"),
    ],
)
def test_options_that_cannot_be(tmp_path, option, message):
    with opened(tmp_path / "pond") as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time = 'ts')")
        with pytest.raises(StatementError, match=message):
            pond.sql(f"CREATE QUERY w WITH ({option}) AS SELECT count(*) AS n FROM s [TUMBLING 10 SECONDS]")


def test_failures_are_letters_and_too_many_stop_the_query(tmp_path):
    def picky(value):
        if value < 0:
            raise ValueError(f"{value} is below 0")
        return value > 5

    with opened(tmp_path / "pond") as pond:
        pond.register_function("picky", picky, arguments=["BIGINT"])
        pond.sql("""
            CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time = 'ts');
            CREATE QUERY w AS SELECT count(*) AS n FROM s [TUMBLING 10 SECONDS] WHERE picky(v) AND v <> 7;
            CREATE QUERY plain AS SELECT count(*) AS n FROM s [TUMBLING 10 SECONDS];
        """)
        times = pa.array([T0 + dt.timedelta(seconds=n) for n in range(12)], pa.timestamp("us"))
        pond.ingest("s", pa.table({"ts": times, "v": [1, 6, -2, 7, 8, None, -3, 9, 9, 9, 0, 0]}))
        pond.drain()
        assert pond.sql("SELECT n FROM w").rows() == [(5,)]
        letters = pond.sql("SELECT reason, record FROM dead(s)").rows()
        assert [json.loads(record)["v"] for _, record in letters] == [-2, -3]
        assert letters[0][0].startswith("registered function picky failed: ValueError: -2 is below 0; File ")
        times = pa.array([T0 + dt.timedelta(minutes=1)] * 1500, pa.timestamp("us"))
        pond.ingest("s", pa.table({"ts": times, "v": [-1] * 1500}))
        pond.drain()
        status = {q[0]: q for q in pond.sql("SHOW QUERIES").rows()}
        assert "quarantined" in status["w"] and any("picky failed" in str(x) for x in status["w"])
        assert "live" in status["plain"]


def test_a_function_that_gives_a_wrong_number_of_values_stops_its_queries(tmp_path):
    """Asked for one row after the other `[True]` would fit, and every row would be counted."""
    with opened(tmp_path / "pond") as pond:
        pond.register_function("one", lambda v: pa.array([True]), arguments=["BIGINT"], vectorised=True)
        pond.sql("""
            CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time = 'ts');
            CREATE QUERY w AS SELECT count(*) AS n FROM s [TUMBLING 10 SECONDS] WHERE one(v);
            CREATE QUERY x AS SELECT count(*) FILTER (WHERE one(v)) AS n FROM s [TUMBLING 10 SECONDS];
            CREATE QUERY plain AS SELECT count(*) AS n FROM s [TUMBLING 10 SECONDS];
        """)
        times = pa.array([T0 + dt.timedelta(seconds=n) for n in range(12)], pa.timestamp("us"))
        pond.ingest("s", pa.table({"ts": times, "v": list(range(12))}))
        pond.drain()
        status = {q[0]: " ".join(map(str, q)) for q in pond.sql("SHOW QUERIES").rows()}
        assert "quarantined" in status["w"] and "it gave 1 values for" in status["w"]
        assert "quarantined" in status["x"] and "it gave 1 values for" in status["x"]
        assert pond.sql("SELECT n FROM plain").rows() == [(10,)]


def test_the_log_keeps_its_size_and_forgets_what_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(filter_orders, "LARGE", 0)  # the file is written anew whenever it has doubled
    monkeypatch.setattr(filter_plans, "EVERY", 1)
    pond = declare(tmp_path / "pond")
    pond.ingest("s", batch(0, False))
    pond.drain()
    orders, catalog = pond._core.controllers.filters, pond._core.catalog
    gone, *stay = (subject.name for subject in subjects(catalog))
    assert orders.log(gone)
    pond.sql("DROP QUERY w")
    assert orders.of(pond._core.catalog, gone) is None and not orders.log(gone)
    orders._rewrite()
    lines = [json.loads(line)["subject"] for line in (tmp_path / "pond" / "plans.jsonl").read_text().splitlines()]
    assert set(lines) == set(stay)
    size = orders._written
    for number in range(1, 12):
        pond.ingest("s", batch(number, number % 4 >= 2))
        pond.drain()
    assert orders._written != size and os.path.getsize(tmp_path / "pond" / "plans.jsonl") <= 2 * orders._written
    pond.close()
