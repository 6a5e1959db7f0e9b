"""Orders of pipelines in a pond: learnt between epochs, kept over restarts, and of no influence on any answer."""

import datetime as dt
import random
from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import millpond
from millpond.engine.control.epoch import begin_epoch, run_epoch
from millpond.manifests.records import read_manifest
from millpond.tables.shard_cache import clear_all
from tests.engine.clocks import charged
from tests.engine.written import state_bytes
from tests.relations.xjoin import xjoin

T0 = dt.datetime(2024, 5, 1)
NAMES = ("r", "x", "y", "z")
#: How many of their rows have keys that r may have.
SHARES = {"x": 0.9, "y": 0.5, "z": 0.03}


def opened(path):
    return millpond.open(path, executor="inline", shards=2, compact_files=4)


#: An order that is tried at every chance.
EAGER = "adapt_probability = 1, adapt_window = 300, adapt_budget = 1"


def declare(path, tests, options=EAGER, pond=None):
    pond = opened(path) if pond is None else pond
    for name in NAMES:
        pond.sql(
            f"CREATE STREAM {name} (ts TIMESTAMP, a INTEGER, b INTEGER) WITH (event_time='ts', lateness='1 second')"
        )
    windows = ", ".join(f"{n} [RANGE {4 if n == 'r' else 6} SECONDS]" for n in NAMES)
    pond.sql(f"CREATE QUERY q WITH ({options}) AS"
             f" SELECT r.a, r.b, x.b AS xb, y.b AS yb, z.b AS zb FROM {windows} WHERE {tests}")  # fmt: skip
    return pond


STAR = "r.a = x.a AND r.a = y.a AND r.a = z.a"
TREE = "r.a = x.a AND x.b = y.b AND r.b = z.b"


def batch(name, number, flipped, rows=700):
    """Rows of a second, some of them late; the others have some keys that r has not."""
    rng = np.random.default_rng([number, NAMES.index(name)])
    shares = dict(zip(SHARES, [*SHARES.values()][::-1], strict=True)) if flipped else SHARES
    keys = rng.integers(0, 3 * rows, rows)
    keys = keys if name == "r" else np.where(rng.random(rows) < shares[name], keys, -1 - keys)
    late = np.where(rng.random(rows) < 0.1, rng.integers(0, 4, rows), 0)
    seconds = np.maximum(0, number - late)
    times = [T0 + dt.timedelta(seconds=int(s), milliseconds=int(m))
             for s, m in zip(seconds, rng.integers(0, 1000, rows), strict=True)]  # fmt: skip
    other = rng.integers(0, 2 * rows, rows).astype(np.int32)
    return pa.table({"ts": pa.array(times, pa.timestamp("us")), "a": keys.astype(np.int32), "b": other})


def feed(pond, number, flipped, rows=700):
    for name in NAMES:
        pond.ingest(name, batch(name, number, flipped, rows))


def answers(pond):
    return pond.sql("SELECT * FROM q ALL REVISIONS ORDER BY ALL").rows()


def net(pond):
    """What all revisions of the answers come to: how many more of each row there are at each instant."""
    found = Counter()
    for row in pond.sql("SELECT * FROM q ALL REVISIONS").table.to_pylist():
        sign = (1 if row["change"] == "+" else -1) * (1 if row["op"] == "+" else -1)
        found[row["at"].replace(tzinfo=None), *(row[c] for c in ("a", "b", "xb", "yb", "zb"))] += sign
    return {key: n for key, n in found.items() if n}


def expected(tests, given):
    """The same from the definition, in DuckDB, of all rows that came."""
    db = duckdb.connect()
    for name, tables in given.items():
        db.register(name, pa.concat_tables(tables))
    ends = ", ".join(f"{n}.ts + INTERVAL '{4 if n == 'r' else 6} seconds' + INTERVAL '1 microsecond'" for n in NAMES)
    begins = ", ".join(f"{n}.ts" for n in NAMES)
    sql = (
        f"WITH j AS (SELECT greatest({begins}) AS b, least({ends}) AS e, r.a AS ra, r.b AS rb, x.b AS xb, y.b AS yb,"
        f" z.b AS zb FROM r, x, y, z WHERE {tests}), d AS (SELECT b AS t, 1 AS n, * EXCLUDE (b, e) FROM j WHERE b < e"
        " UNION ALL SELECT e, -1, * EXCLUDE (b, e) FROM j WHERE b < e)"
        " SELECT t, ra, rb, xb, yb, zb, sum(n) FROM d GROUP BY ALL HAVING sum(n) <> 0"
    )
    return {tuple(row[:-1]): int(row[-1]) for row in db.sql(sql).fetchall()}


def test_answers_do_not_depend_on_the_orders(tmp_path):
    """Orders that are learnt, that are drawn at random for each epoch (with kills), and the usual ones."""
    for tests in (STAR, TREE):
        results = []
        for which in ("a_greedy", "random", "off"):
            rng, path = random.Random(tests), tmp_path / f"{which}{tests is TREE}"
            pond = declare(path, tests, "adapt = 'off'" if which == "off" else EAGER)
            for number in range(6):
                feed(pond, number, number >= 3, 150)
                core = pond._core
                if which == "random":
                    drawn = core.controllers.filters.plans
                    core.controllers.filters.plans = lambda c, drawn=drawn, rng=rng: {
                        name: type(plan)(tuple(rng.sample(plan.order, 3)), 0.0) for name, plan in drawn(c).items()
                    }
                epoch = begin_epoch(core)
                orders = {plan.order for plan in read_manifest(path, epoch).filters.values()}
                assert len(read_manifest(path, epoch).filters) == 4 and (which != "off" or orders == {(0, 1, 2)})
                if which == "random" and number in (2, 5):  # killed with its manifest written
                    pond._core.close()
                    clear_all()
                    pond = opened(path)
                run_epoch(pond._core, epoch)
                pond.step()
            pond.sql("DRAIN FINAL")
            results.append(answers(pond))
            if which == "a_greedy":
                came = {n: [batch(n, number, number >= 3, 150) for number in range(6)] for n in NAMES}
                assert net(pond) == expected(tests, came)
                assert any(row[-2] > 0 or row[-1] == "-" for row in results[-1])  # late rows have revised some
            pond.close()
        assert results[0] == results[1] == results[2]
        assert len(results[0]) > 20


def changes(pond, query):
    """What all revisions of a relation come to: by (microseconds since T0, row), how many more there are."""
    found = Counter()
    for row in pond.sql(f"SELECT * FROM {query} ALL REVISIONS").table.to_pylist():
        at = round((row.pop("at").replace(tzinfo=None) - T0) / dt.timedelta(microseconds=1))
        sign = (1 if row.pop("change") == "+" else -1) * (1 if row.pop("op") == "+" else -1)
        del row["revision"]
        found[at, tuple(row.values())] += sign
    return Counter({key: n for key, n in found.items() if n})


#: Joins by their graphs: inputs s0, s1, … with columns a and b.
GRAPHS = {
    "cyclic": (4, "s0.a = s1.a AND s1.b = s2.b AND s2.a = s3.a AND s3.b = s0.b"),
    "chain": (5, "s0.b = s1.a AND s1.b = s2.a AND s2.b = s3.a AND s3.b = s4.a"),
    "star": (5, "s0.a = s1.a AND s0.a = s2.a AND s0.a = s3.a AND s0.b = s4.b"),
    "disconnected": (4, "s0.a = s1.a AND s2.a = s3.a AND true"),
}


@pytest.mark.parametrize("graph", GRAPHS)
def test_joins_of_many_inputs_are_their_definition(tmp_path, graph):
    """Late rows, epochs cut and orders drawn at random, kills: MJoin = a tree of two-way joins."""
    count, tests = GRAPHS[graph]
    rng, names = random.Random(graph), [f"s{n}" for n in range(count)]
    pond, given = opened(tmp_path / "pond"), {name: [] for name in names}
    for name in names:
        pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, a INTEGER, b INTEGER) WITH (event_time='ts')")
    items = [f"{name} [RANGE {3 + n} SECONDS]" for n, name in enumerate(names)]
    clause = (
        f"{items[0]}, {items[1]} CROSS JOIN {items[2]}, {items[3]}" if graph == "disconnected" else ", ".join(items)
    )
    listed = ", ".join(f"{name}.a AS a{n}, {name}.b AS b{n}" for n, name in enumerate(names))
    pond.sql(
        f"CREATE QUERY q WITH (adapt_probability = 1, adapt_window = 50) AS SELECT {listed} FROM {clause} WHERE {tests}"
    )
    pond.sql(f"CREATE QUERY g AS SELECT s0.a, count(*) AS n, sum(s1.b) AS t FROM {clause} WHERE {tests} GROUP BY s0.a")
    told = [row for (row,) in pond.sql("EXPLAIN q").rows()]
    assert any(f"join graph: {'acyclic' if graph == 'chain' else graph}" in line for line in told)
    for step in range(6):
        for name in rng.sample(names, count):
            some = [(max(0, 2 * step - rng.choice((0, 0, 1, 5))), rng.randrange(4), rng.randrange(3)) for _ in range(4)]
            pond.ingest(name, [{"ts": T0 + dt.timedelta(seconds=t), "a": a, "b": b} for t, a, b in some])
            given[name] += some
            if rng.random() < 0.2:
                pond.step()
        core = pond._core
        drawn = type(core.controllers.filters).plans
        core.controllers.filters.plans = lambda c, core=core, drawn=drawn: {
            name: type(plan)(tuple(rng.sample(plan.order, len(plan.order))), 0.0)
            for name, plan in drawn(core.controllers.filters, c).items()
        }
        epoch = begin_epoch(core)
        if step in (2, 5):  # killed, with its manifest written where there was something to take
            pond._core.close()
            clear_all()
            pond = opened(tmp_path / "pond")
        if epoch is not None:
            run_epoch(pond._core, epoch)
    pond.drain(final=True)
    found, sums = changes(pond, "q"), changes(pond, "g")
    pond.close()
    spans = [[(t * 10**6, (t + 3 + n) * 10**6 + 1, (a, b)) for t, a, b in given[f"s{n}"]] for n in range(count)]
    parts = [t.split(" = ") for t in tests.split(" AND ") if "=" in t]
    equalities = [tuple((int(side[1]), "ab".index(side[3])) for side in pair) for pair in parts]
    tree = rng.sample(range(count), count) if graph in ("cyclic", "disconnected") else list(range(count))
    assert found == xjoin(spans, equalities, tree)
    assert len(found) > 50
    rows, groups = Counter(), Counter()
    for at in sorted({at for at, _ in [*found, *sums]}):
        rows.update({values: n for (t, values), n in found.items() if t == at})
        groups.update({values: n for (t, values), n in sums.items() if t == at})
        now = {k: [(v, n) for v, n in rows.items() if n and v[0] == k] for k in range(4)}
        wanted = {(k, sum(n for _, n in g), sum(v[3] * n for v, n in g)): 1 for k, g in now.items() if g}
        assert {values: n for values, n in groups.items() if n} == wanted


@pytest.fixture
def every_probe_costs_the_same():
    with charged(tick=1e-4):
        yield


@pytest.mark.usefixtures("every_probe_costs_the_same")
def test_orders_follow_what_is_seen_and_are_told(tmp_path):
    pond = declare(tmp_path / "pond", STAR)
    number, core = 0, pond._core
    name = (
        f"join {pond._core.catalog.queries[1].id if 1 in pond._core.catalog.queries else min(core.catalog.queries)} 0"
    )
    for flipped, first in ((False, 2), (True, 0)):
        for _ in range(6):
            feed(pond, number, flipped)
            pond.drain()
            number += 1
        assert core.controllers.filters.of(core.catalog, name)[1].order[0] == first
    told = [row for (row,) in pond.sql("EXPLAIN ANALYZE q").rows()]
    assert 'join graph: star, r."a" = x."a" = y."a" = z."a"' in told
    assert any(line.startswith("pipeline of r: x, ") for line in told)
    assert sum(line.startswith("pipeline of ") for line in told) == 4
    assert any(line.startswith("order: kept by a_greedy: p = 1, window 300") for line in told)
    assert any(line.startswith("probe r > x: ") for line in told)
    assert any(line.startswith("changed after epoch") and " to x, " in line for line in told)
    log = [e for e in pond.plans("q").to_pylist() if e["pipeline"] == "r"]
    assert [e["plan"][0] for e in log if e["changed"]][-1] == "x" and len(log) >= 2
    assert dict(log[-1]["statistics"]).keys() <= {"x", "y", "z"}
    assert any(f["order"].startswith("x > ") for f in pond.status()["filters"])
    pond._core.close()  # killed
    again = opened(tmp_path / "pond")
    assert [e for e in again.plans("q").to_pylist() if e["pipeline"] == "r"] == log
    feed(again, number + 8, True)
    epoch = begin_epoch(again._core)
    assert read_manifest(tmp_path / "pond", epoch).filters[name].order[0] == 0
    # A repeated epoch writes the same bytes.
    once, core = again._core.executor.run, again._core
    runs = []

    def run(*arguments, **more):
        runs.append(once(*arguments, **more))
        files = state_bytes(tmp_path / "pond")
        clear_all()
        found = once(*arguments, **more)
        assert state_bytes(tmp_path / "pond") == files
        return found

    core.executor.run = run
    run_epoch(core, epoch)
    assert runs
    again.sql("ALTER QUERY q SET (adapt = 'sweep', adapt_alpha = 0.8)")
    told = [row for (row,) in again.sql("EXPLAIN q").rows()]
    assert "order: kept by sweep: p = 1, window 300 profile tuples, alpha = 0.8" in told
    again.sql("DROP QUERY q")
    assert again._core.controllers.filters.of(
        again._core.catalog, name
    ) is None and not again._core.controllers.filters.log(name)
    again.close()


@pytest.mark.spark
@pytest.mark.slow
def test_orders_change_on_spark(spark_pond):
    """Selectivities flip in mid-run: the order follows, and the answers are those of the definition."""
    pond, given, number = declare(None, STAR, pond=spark_pond("orders", shards=2)), {n: [] for n in NAMES}, 0
    core = pond._core
    name = f"join {min(core.catalog.queries)} 0"
    for flipped, first in ((False, 2), (True, 0)):
        for _ in range(14):
            for each in NAMES:
                given[each].append(batch(each, number, flipped, 500))
                pond.ingest(each, given[each][-1])
            pond.drain()
            number += 1
            order = core.controllers.filters.of(core.catalog, name)[1].order
            if order[0] == first and (number > 2 or flipped):
                break
        assert order[0] == first
    pond.sql("DRAIN FINAL")
    assert [e["plan"][0] for e in pond.plans("q").to_pylist() if e["pipeline"] == "r" and e["changed"]][-1] == "x"
    assert net(pond) == expected(STAR, given)
