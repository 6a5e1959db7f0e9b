"""Columns that are called as something in the engine, or in its SQL, is called: answers are those under other names."""

import datetime as dt
import random

import pytest

from tests.conftest import SEED

T0 = dt.datetime(2026, 1, 1)

#: Names of columns, and of tables and columns within the engine's SQL.
NAMES = [
    "n",
    "end",
    "start",
    "x",
    "there",
    "v0",
    "s0",
    "c0",
    "k0",
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "g",
    "q",
    "r",
    "s2",
    "new",
    "old",
    "given",
    "folded",
    "rows",
    "segment",
    "pane",
    "row",
    "at",
    "change",
    "op",
    "revision",
    "covered_from",
    "status",
    "final",
    "exact",
    "value",
    "code",
    "count",
    "_source",
]

#: Read by `NAMES` or, to compare with, by others: `{c}` is a column, `{d}` another.
QUERIES = {
    "window": 'SELECT {c}, sum({d}) AS total, count(*) AS z FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY {c}',
    "limit": "SELECT {c}, count(*) AS z FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY {c} ORDER BY z DESC, {c} LIMIT 2",
    "distinct": "SELECT DISTINCT {c} FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY {c}, {d}",
    "rows": "SELECT {c}, count(*) AS z FROM s [PARTITION BY {c} ROWS 2 SLIDE 1]",
    "istream": "SELECT ISTREAM({c}, {d}) FROM s [RANGE 5 SECONDS] WHERE {c} > 0",
    "dstream": "SELECT DSTREAM({c}, {d}) FROM s [RANGE 5 SECONDS]",
    "groups": "SELECT ISTREAM({c}, max({d}) AS z) FROM s [RANGE 5 SECONDS] GROUP BY {c}",
    "join": "SELECT ISTREAM(l.{c}, m.{d}) FROM s [RANGE 1 HOUR] l JOIN s [RANGE 1 HOUR] m ON l.{c} = m.{c}",
    "pairs": "SELECT PAIRS(l.{c}, m.{d}) FROM s [RANGE 5 SECONDS] l LEFT JOIN s [RANGE 5 SECONDS] m ON l.{c} < m.{d}",
    "table": "SELECT {c}, tv, count(*) AS z FROM s [RANGE TUMBLING 10 SECONDS] JOIN t ON t.id = {c} GROUP BY {c}, tv",
    "landmark": "SELECT {c}, count(*) AS z FROM s [RANGE ALL SLIDE 5 SECONDS] GROUP BY {c}",
}  # fmt: skip
INVOKED = {
    "plain": "SELECT {c}, {d} FROM s WHERE {c} > 0",
    "summed": "SELECT {c}, sum({d}) AS z FROM s GROUP BY {c}",
    "met": "SELECT l.{c}, m.{d} FROM s l JOIN s m ON l.{c} = m.{c}",
}


def quoted(name):
    return f'"{name}"'


def life(pond, names, folder, places):
    """Answers of all queries over columns of these names, each with its neighbour.

    places: for each query the names that it is asked over.
    """
    (folder / "t.csv").write_text("id,tv\n1,one\n2,two\n")
    columns = ", ".join(f"{quoted(n)} INTEGER" for n in names)
    pond.sql(f"CREATE STREAM s (ts TIMESTAMP, {columns}) WITH (event_time='ts')")
    pond.sql(f"CREATE TABLE t (id INTEGER, tv TEXT) WITH (path='{folder}/t.csv')")
    made = []
    for number, (name, text) in enumerate({**QUERIES, **INVOKED}.items()):
        for at in places[number]:
            own, other = names[at], names[(at + 1) % len(names)]
            made.append(f"{name}_{at}")
            pond.sql(f"CREATE QUERY {made[-1]} AS {text.format(c=quoted(own), d=quoted(other))}")
    for seconds, value in ((1, 1), (2, 2), (3, 1), (4, None), (8, 3), (13, 2), (3, 2), (27, 0)):
        row = {n: value if value is None else value + at % 2 for at, n in enumerate(names)}
        pond.ingest("s", [{"ts": T0 + dt.timedelta(seconds=seconds), **row}])
        pond.step()
    asked = {name: f"INVOKE {name}" if name.split("_")[0] in INVOKED else f"SELECT * FROM {name}" for name in made}
    found = {name: sorted(map(str, pond.sql(text).rows())) for name, text in asked.items()}
    found |= {f"{n} log": sorted(map(str, pond.sql(f"SELECT * FROM {n} ALL REVISIONS").rows()))
              for n in made if n.split("_")[0] in QUERIES}  # fmt: skip
    assert [row for row in pond.sql("SHOW QUERIES").to_arrow().to_pylist() if row["status"] != "live"] == []
    return found


def test_columns_of_any_name(inline_pond, tmp_path):
    draw = random.Random(SEED)
    places = [draw.sample(range(len(NAMES)), 3) for _ in (*QUERIES, *INVOKED)]
    found = life(inline_pond("named"), NAMES, tmp_path, places)
    expected = life(inline_pond("numbered"), [f"zq{n}" for n in range(len(NAMES))], tmp_path, places)
    assert found == expected
    assert sum(map(bool, found.values())) > len(found) // 2


def test_structs_of_any_name(inline_pond):
    pond = inline_pond()
    names = [n for n in NAMES if n not in ("op", "revision", "covered_from", "at", "change")]
    shown = ", ".join(f"max(z) AS {quoted(n)}" for n in names)
    keys = ", ".join(f"z AS {quoted(n)}" for n in names)
    pond.sql(f"""
        CREATE STREAM s (ts TIMESTAMP, z STRUCT(a INTEGER), v INTEGER) WITH (event_time='ts');
        CREATE QUERY most AS SELECT {shown} FROM s [RANGE TUMBLING 10 SECONDS];
        CREATE QUERY soon WITH (early='1 second') AS SELECT {shown.replace('max(z) AS "status", ', "")}
            FROM s [RANGE TUMBLING 10 SECONDS];
        CREATE QUERY each AS SELECT {keys}, count(*) AS m FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY z;
        CREATE QUERY changes AS SELECT ISTREAM({keys}, v) FROM s [RANGE 5 SECONDS];
    """)
    for seconds in (1, 13, 2, 25):
        pond.ingest("s", [{"ts": T0 + dt.timedelta(seconds=seconds), "z": {"a": seconds}, "v": seconds}])
        pond.step()
    assert [row for row in pond.sql("SHOW QUERIES").to_arrow().to_pylist() if row["status"] != "live"] == []
    rows = pond.sql("SELECT * FROM most").to_arrow().to_pylist()
    assert [{n: row[n] for n in names} for row in rows] == [{name: {"a": n} for name in names} for n in (2, 13)]
    assert [row["revision"] for row in rows] == [1, 0]
    assert [row["m"] for row in pond.sql("SELECT * FROM each").to_arrow().to_pylist()] == [1, 1, 1]
    assert len(pond.sql("SELECT * FROM changes").rows()) == 3
    assert len(pond.sql("SELECT * FROM soon ALL REVISIONS").rows()) > 2


@pytest.mark.parametrize("name", ["op", "revision"])
def test_a_column_that_answers_have_too_is_numbered(inline_pond, name):
    pond = inline_pond()
    pond.sql(f"""
        CREATE STREAM s (ts TIMESTAMP, {name} TEXT, v INTEGER) WITH (event_time='ts');
        CREATE QUERY w AS SELECT {name}, sum(v) AS total FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY {name};
        CREATE QUERY i AS SELECT ISTREAM(*) FROM s [NOW];
        CREATE QUERY r AS SELECT * FROM s WHERE v > 1;
        CREATE STREAM d AS SELECT * FROM s WHERE v > 1;
    """)
    pond.ingest("s", [{"ts": T0, name: "-", "v": 1}, {"ts": T0, name: "+", "v": 2}])
    pond.drain(final=True)
    answers = pond.sql("SELECT * FROM w").to_arrow()
    assert f"{name}_1" in answers.column_names
    assert dict(zip(answers[f"{name}_1"].to_pylist(), answers["total"].to_pylist(), strict=True)) == {"-": 1, "+": 2}
    assert sorted(pond.sql("SELECT * FROM i").to_arrow()[f"{name}_1"].to_pylist()) == ["+", "-"]
    assert pond.sql("INVOKE r").rows() == [(T0, "+", 2)] == pond.sql("SELECT * FROM d").rows()
    assert pond.sql(f"SELECT {name} FROM s ORDER BY v").rows() == [("-",), ("+",)]
