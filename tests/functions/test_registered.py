"""Registered functions: callable wherever a query says something of a row, kept, refused with a place."""

import contextlib
import datetime as dt
import os

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import millpond
import millpond.language.inference.duck as duck
from millpond.engine.control.epoch import begin_epoch, run_epoch
from millpond.functions import known_functions as registry
from millpond.support.errors import QueryError, SourceError, StatementError
from millpond.types import Column

T0 = dt.datetime(2024, 5, 1)
BAD = {"10.0.0.1", "10.0.0.7"}


def listed(addr):
    return addr in BAD


def matches(payload, pattern):
    if pc.any(pc.equal(payload, "broken")).as_py():
        raise ValueError("cannot read this payload")
    return [p.startswith(q) for p, q in zip(payload.to_pylist(), pattern.to_pylist(), strict=True)]


def size(payload):
    return pc.binary_length(payload)


def packets(pond, rows, start=0):
    times = [T0 + dt.timedelta(seconds=start + n) for n in range(len(rows))]
    columns = list(zip(*rows, strict=True))
    pond.ingest(
        "packets", pa.table({"ts": pa.array(times, pa.timestamp("us")), "addr": columns[0], "payload": columns[1]})
    )


def opened(path):
    return millpond.open(path, executor="inline")


@pytest.fixture
def pond(tmp_path):
    with opened(tmp_path / "pond") as pond:
        pond.sql(
            "CREATE STREAM packets (ts TIMESTAMP, addr TEXT, payload TEXT) WITH (event_time = 'ts', lateness = '1s')"
        )
        pond.register_function("lookup", listed, arguments=["TEXT"])
        pond.register_function("match", matches, arguments=["TEXT", "TEXT"], vectorised=True, cost=5)
        pond.register_function("size", size, arguments=["VARCHAR"], returns="INTEGER", vectorised=True)
        yield pond


ROWS = [
    ("10.0.0.1", "abc"),
    ("10.0.0.2", "abd"),
    ("10.0.0.7", "xyz"),
    (None, "abx"),
    ("10.0.0.1", "broken"),
    ("10.0.0.7", "ab"),
]


def test_mistakes_in_window_functions_name_functions_as_they_are_called(pond):
    for text in (
        "SELECT size(payload) OVER (ORDER BY ts) FROM packets",
        "CREATE QUERY q AS SELECT size(payload) OVER (ORDER BY ts) AS n FROM packets [RANGE 1 HOUR]",
        "SELECT list_transform([1], x -> size(payload) OVER ()) FROM packets",
    ):
        with pytest.raises(StatementError, match="size is not an aggregate function") as caught:
            pond.sql(text)
        assert "udf__" not in str(caught.value)


def test_every_kind_of_query_calls_them(pond, tmp_path):
    where = "WHERE lookup(addr) AND match(payload, 'ab') = true"
    pond.sql(f"""
        CREATE QUERY counted AS SELECT count(*) AS n, sum(size(payload)) AS bytes
            FROM packets [TUMBLING 10 SECONDS] {where};
        CREATE QUERY found AS SELECT addr, payload FROM packets {where};
        CREATE QUERY seen AS SELECT ISTREAM(addr, payload) FROM packets [RANGE UNBOUNDED] {where};
        CREATE STREAM passed AS SELECT ts, addr, size(payload) AS n FROM packets {where};
    """)
    packets(pond, ROWS)
    packets(pond, [("10.0.0.9", "z")], start=30)
    pond.drain()
    expected = [("10.0.0.1", "abc"), ("10.0.0.7", "ab")]
    assert pond.sql("SELECT n, bytes FROM counted").rows() == [(2, 5)]
    assert pond.sql("INVOKE found").rows() == expected
    assert sorted(pond.sql("SELECT addr, payload FROM seen").rows()) == expected
    assert pond.sql("SELECT addr, n FROM passed").rows() == [("10.0.0.1", 3), ("10.0.0.7", 2)]
    good = "payload <> 'broken'"  # an ad hoc query fails as a whole
    text = f"SELECT addr, size(payload) AS n FROM packets WHERE {good} AND lookup(addr) ORDER BY n, addr"
    assert pond.sql(text).rows() == [
        ("10.0.0.7", 2), ("10.0.0.1", 3), ("10.0.0.7", 3),
    ]  # fmt: skip
    assert pond.sql(f"SELECT count(*) AS n FROM packets {where} AND {good}").rows() == [(2,)]
    reasons = [r for (r,) in pond.sql("SELECT reason FROM dead(packets)").rows()]
    assert len(reasons) >= 3 and all("ValueError: cannot read this payload" in r and "in matches" in r for r in reasons)
    assert not any("udf__" in r for r in reasons)
    with pytest.raises(QueryError, match="is used by counted, found, passed, seen; drop them first, or choose"):
        pond.register_function("match", matches, arguments=["TEXT", "TEXT"])
    pond.close()
    with opened(tmp_path / "pond") as again:
        assert again.functions() == [
            "lookup(VARCHAR) -> BOOLEAN", "match(VARCHAR, VARCHAR) -> BOOLEAN", "size(VARCHAR) -> INTEGER",
        ]  # fmt: skip
        packets(again, [("10.0.0.7", "abab"), ("10.0.0.9", "z")], start=40)
        again.drain()
        assert again.sql("INVOKE found").rows() == [*expected, ("10.0.0.7", "abab")]
        with pytest.raises(QueryError, match="is used by"):
            again.drop_function("lookup")
        again.sql("DROP STREAM passed; DROP QUERY counted; DROP QUERY found; DROP QUERY seen")
        assert again.drop_function("Lookup") == "function lookup dropped"
        with pytest.raises(StatementError, match="there is no function lookup"):
            again.sql("SELECT addr FROM packets WHERE lookup(addr)")


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("SELECT addr FROM packets WHERE lokup(addr)", "there is no function lokup", "lokup"),
        ("SELECT addr FROM packets WHERE lookup(addr, 1)", "lookup takes 1 argument, not 2", "lookup"),
        ("SELECT addr FROM packets WHERE lookup(ts)", "function lookup does not take (TIMESTAMP)", "lookup(ts)"),
        ("SELECT addr FROM packets [RANGE 1 HOUR] WHERE lookup(1)", "lookup does not take (INTEGER)", "lookup(1)"),
        ("SELECT count(*) FROM packets WHERE size(payload)", "but this is INTEGER", "size(payload)"),
    ],
)
def test_what_cannot_be_called_is_refused_with_its_place(pond, text, message, place):
    with pytest.raises(StatementError) as caught:
        pond.sql(text)
    assert message in str(caught.value)
    assert text[caught.value.start :].startswith(place)


def test_what_cannot_be_registered(pond):
    for name, arguments, returns, message in [
        ("upper", ["TEXT"], "TEXT", "function of the language"),
        ("no good", ["TEXT"], "TEXT", "cannot be a function's name"),
        ("f", ["TEXT", "TEXT"], "TEXT", "is registered with 2 arguments: too many positional arguments"),
        ("f", ["TEX"], "TEXT", "'TEX' is no type"),
        ("f", "TEXT", "TEXT", r"arguments are a list of types, such as \['TEXT'\]"),
        *(
            (name, ["TEXT"], "TEXT", "is a word of the language")
            for name in ("select", "cast", "if", "istream", "pairs")
        ),
        ("f", ["TEXT"], "TEXT; DROP", "is no type"),
    ]:
        with pytest.raises(QueryError, match=message):
            pond.register_function(name, listed, arguments=arguments, returns=returns)
    with pytest.raises(QueryError, match="cannot be pickled"):
        pond.register_function("f", (lambda lock: lambda a: lock)(__import__("threading").Lock()), arguments=["TEXT"])


def test_an_epoch_that_is_repeated_has_the_functions_from_when_it_was_proposed(tmp_path, monkeypatch):
    pond = opened(tmp_path / "pond")
    pond.register_function("lookup", listed, arguments=["TEXT"])
    pond.sql("""
        CREATE STREAM packets (ts TIMESTAMP, addr TEXT, payload TEXT) WITH (event_time = 'ts');
        CREATE QUERY counted AS SELECT count(*) AS n FROM packets [TUMBLING 1 MINUTE] WHERE lookup(addr);
        CREATE STREAM passed AS SELECT ts, addr FROM packets WHERE lookup(addr)
    """)
    packets(pond, [("10.0.0.1", "a"), ("10.0.0.2", "b")])
    epoch = begin_epoch(pond._core)
    pond.sql("DROP QUERY counted; DROP STREAM passed")
    pond.drop_function("lookup")
    pond._core.close()  # killed with its manifest written
    monkeypatch.setattr(registry, "_known", {})  # another process knows what lies in the folder, and no more
    monkeypatch.setattr(registry, "_ordered", [])
    again = opened(tmp_path / "pond")
    run_epoch(again._core, epoch)
    assert again.functions() == [] and again.sql("SELECT count(*) AS n FROM packets").rows() == [(2,)]
    again.close()
    opened(tmp_path / "pond").close()
    assert os.listdir(tmp_path / "pond" / "functions") == []


def test_a_function_that_ends_the_process_fails_like_any_other(pond):
    pond.register_function("ends", lambda addr: exit(3), arguments=["TEXT"])
    pond.sql("""
        CREATE QUERY q AS SELECT count(*) AS n FROM packets [TUMBLING 1 MINUTE] WHERE ends(addr);
        CREATE QUERY r AS SELECT addr, ends(addr) AS e FROM packets WHERE ends(addr)
    """)
    packets(pond, ROWS[:2])
    pond.drain()
    letters = pond.sql(
        "SELECT source, count(*) FROM dead(packets) WHERE reason LIKE '%ends failed: SystemExit: 3%' GROUP BY ALL"
    )
    assert sorted(letters.rows()) == [("query q", 2), ("query r", 2)]
    for text in ("SELECT ends('a')", "SELECT count(*) FROM packets WHERE ends(addr)"):
        with pytest.raises(QueryError, match="registered function ends failed: SystemExit: 3"):
            pond.sql(text)
    # What users see has the function's name, not the one that it has inside.
    assert not any("udf__" in line for name in "qr" for (line,) in pond.sql(f"EXPLAIN {name}").rows())
    assert 'ends("addr")' in [row[4] for row in pond.sql("SHOW SYNOPSES").rows()]
    with pytest.raises(QueryError, match="'r' is a row query"):
        pond.plans("r")
    with pytest.raises(SourceError, match="'r' is not a stream, and only streams take rows"):
        pond.ingest("r", [])


@pytest.mark.parametrize(
    ("ask", "refused"),
    [
        (lambda: duck.evaluate("TRY_CAST('12' AS INTEGER)"), None),
        (lambda: duck.evaluate("error('no')"), duckdb.Error),
        (lambda: duck.describe("SELECT 1 AS one"), None),
        (lambda: duck.describe("SELECT nothing"), duck.Refused),
        (lambda: [duck.TypedRelation((Column("a", "INTEGER"),)).types([f"a + {n}"]) for n in range(9)], None),
        (lambda: duck.TypedRelation((Column("a", "INTEGER"),)).types(["b"]), duck.Refused),
    ],
)
def test_a_function_can_be_registered_after_any_question(pond, ask, refused):
    # DuckDB takes no new function while a question's rows have not been fetched to their end.
    with pytest.raises(refused) if refused else contextlib.nullcontext():
        ask()
    pond.register_function("late", size, arguments=["VARCHAR"], returns="INTEGER", vectorised=True)
    pond.sql("CREATE QUERY q AS SELECT late(addr) AS n FROM packets WHERE late(addr) > 3")
