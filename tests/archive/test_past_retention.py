"""No reader sees a row that is past its stream's retention, whether upkeep has removed the row's file yet or not."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from millpond.support.errors import QueryError
from tests.conftest import Factory

START = dt.datetime(2026, 1, 1)
ROWS = 72
#: Minutes between rows, and how long they are kept.
APART, KEPT = 10, 60
HIGH = (ROWS - 1) * APART
FLOOR = HIGH - KEPT
GONE = "rows of r before 2026-01-01 10:50:00 are gone"

STANDING = """
    CREATE QUERY sliding AS SELECT count(*) AS n FROM r [RANGE 2 HOURS SLIDE 1 HOUR];
    CREATE QUERY relation AS SELECT count(*) AS n FROM r [RANGE 5 HOURS];
    CREATE QUERY sessions AS SELECT count(*) AS n FROM r [SESSION 2 HOURS];
    CREATE QUERY last AS SELECT count(*) AS n FROM r [ROWS 3 SLIDE 2];
    CREATE QUERY chosen AS SELECT v FROM r
"""
#: What is counted now: the rows that are kept, however far back the reader looks.
COUNTS = [
    "SELECT count(*) AS n FROM r",
    "SELECT count(*) AS n FROM r [RANGE 5 HOURS]",
    "SELECT count(*) AS n FROM r BEGIN NOW - 5 HOURS END NOW",
    "SELECT count(*) AS n FROM r BEGIN '2026-01-01' END NOW",
    "SELECT count(*) AS n FROM (SELECT * FROM r) x",
    "SELECT count(*) AS n FROM r JOIN (SELECT v FROM o) y ON y.v = r.v",
    "SELECT count(*) AS n FROM r [RANGE 5 HOURS], o [RANGE 5 HOURS] WHERE r.v = o.v",
]
INVOKED = ["sliding", "relation", "sessions"]
OTHERS = [
    "SELECT count(*) AS n FROM r [RANGE TUMBLING 1 HOUR]",
    "SELECT count(*) AS n FROM r [RANGE 2 HOURS SLIDE 1 HOUR]",
    "SELECT count(*) AS n FROM r [ROWS 3 SLIDE 2]",
    "SELECT count(*) AS n FROM r [SESSION 2 HOURS]",
    "SELECT v FROM r",
    "SELECT ISTREAM(v) FROM r",
    "SELECT max(n) AS n FROM (SELECT count(*) AS n FROM r [RANGE TUMBLING 20 MINUTES]) [RANGE TUMBLING 40 MINUTES]",
    "INVOKE last",
    "INVOKE chosen",
    "INVOKE sliding AS OF TIMESTAMP '2026-01-01 11:30:00'",
    "INVOKE relation AS OF TIMESTAMP '2026-01-01 11:30:00'",
    "SELECT * FROM sliding",
    "SELECT * FROM relation",
]
BEFORE = [
    *(f"INVOKE {query} AS OF TIMESTAMP '2026-01-01 03:00:00'" for query in (*INVOKED, "last")),
    "SELECT count(*) AS n FROM r BEGIN '2026-01-01 01:00' END '2026-01-01 02:00'",
]
FILLED = {
    "f_sliding": "SELECT count(*) AS n FROM r [RANGE 2 HOURS SLIDE 1 HOUR]",
    "f_sums": "SELECT sum(v) AS n FROM r [RANGE TUMBLING 1 HOUR]",
    "f_sessions": "SELECT count(*) AS n FROM r [SESSION 5 MINUTES]",
    "f_changes": "SELECT ISTREAM(v) FROM r [RANGE 1 HOUR]",
    "f_joined": "SELECT ISTREAM(r.v) FROM r [RANGE 2 HOURS], o [RANGE 2 HOURS] WHERE r.v = o.v",
}


def seen(pond: Any) -> dict[str, Any]:
    """What all readers say of the past."""
    found: dict[str, Any] = {}
    for text in (*COUNTS, *OTHERS, *(f"INVOKE {query}" for query in INVOKED)):
        result = pond.sql(text)
        found[text] = result.to_arrow().to_pylist(), result.message
    for text in BEFORE:
        with pytest.raises(QueryError, match="there are rows from 2026-01-01 10:50:00 on") as caught:
            pond.sql(text)
        found[text] = str(caught.value)
    for name, text in FILLED.items():
        pond.sql(f"CREATE QUERY {name} WITH (since='start') AS {text}")
    pond.sql("CREATE STREAM derived WITH (since='start') AS SELECT ts, v FROM r")
    pond.drain()
    for name in (*FILLED, "derived"):
        revisions = "" if name == "derived" else " ALL REVISIONS"
        found[name] = pond.sql(f"SELECT * FROM {name}{revisions}").to_arrow().to_pylist()
    return found


def pond_of(inline_pond: Factory, batch: int, name: str, archive: str = "plain") -> Any:
    pond = inline_pond(name)
    pond.sql(f"""
        CREATE STREAM r (ts TIMESTAMP, v INTEGER) WITH (event_time='ts', retention='1 hour', archive='{archive}');
        CREATE STREAM o (ts TIMESTAMP, v INTEGER) WITH (event_time='ts')
    """)
    pond.sql(STANDING)
    for first in range(0, ROWS, batch):
        rows = [{"ts": START + dt.timedelta(minutes=APART * v), "v": v} for v in range(first, first + batch)]
        pond.ingest("r", rows)
        pond.ingest("o", rows)
        pond.drain()
    return pond


def test_every_reader_sees_the_same_before_and_after_upkeep(inline_pond: Factory) -> None:
    answers = []
    for batch in (ROWS, 6, 1):
        for upkeep in (False, True):
            if (batch, upkeep) == (1, False):
                continue
            pond = pond_of(inline_pond, batch, f"p{batch}{upkeep}")
            if upkeep:
                pond.maintain()
            answers.append(seen(pond))
    first = answers[0]
    for other in answers[1:]:
        for text, answer in first.items():
            if "chosen" not in text:  # its message tells the number of epochs
                assert other[text] == answer, text

    # What is kept, counted without the engine.
    kept = [v for v in range(ROWS) if v * APART >= FLOOR]
    for text in COUNTS:
        assert first[text] == ([{"n": len(kept)}], GONE), text
    for query in INVOKED:
        assert first[f"INVOKE {query}"][0][0]["n"] == len(kept), query
    assert [row["v"] for row in first["SELECT v FROM r"][0]] == kept
    assert [row["v"] for row in first["derived"]] == kept
    assert [row["v"] for row in first["f_changes"]] == [v for v in kept if v < ROWS - 1]
    floor = START + dt.timedelta(minutes=FLOOR)
    for text in ("SELECT count(*) AS n FROM r [RANGE TUMBLING 1 HOUR]", "f_sums"):
        rows = first[text] if text == "f_sums" else first[text][0]
        cut = {row["window_start"]: (row["n"], row["covered_from"]) for row in rows}
        own = [v for v in kept if START + dt.timedelta(hours=10) <= START + dt.timedelta(minutes=v * APART)
               < START + dt.timedelta(hours=11)]  # fmt: skip
        counted = sum(own) if text == "f_sums" else len(own)
        assert cut == {START + dt.timedelta(hours=10): (counted, floor)}, text


def test_what_standing_queries_have_counted_stays(inline_pond: Factory) -> None:
    pond = pond_of(inline_pond, 6, "p")
    for _ in range(2):
        rows = pond.sql("SELECT * FROM sliding").to_arrow().to_pylist()
        assert [row["n"] for row in rows] == [6, *[12] * 10] and not any(row["covered_from"] for row in rows)
        pond.maintain()
    # A late row mends a window of which rows are past the retention, and their files still there.
    pond = pond_of(inline_pond, ROWS, "late")
    pond.ingest("r", [{"ts": START + dt.timedelta(minutes=1), "v": 0}])
    pond.drain()
    [row] = pond.sql("SELECT * FROM sliding WHERE window_end = TIMESTAMP '2026-01-01 01:00:00'").to_arrow().to_pylist()
    assert (row["n"], row["covered_from"]) == (7, None)


def test_a_summary_stands_for_rows_before_they_go_as_after(inline_pond: Factory) -> None:
    design = "plain + summary(SELECT count(*) FROM r [RANGE 1 HOUR TUMBLING])"
    texts = [
        COUNTS[0],
        "SELECT count(*) AS n FROM r [RANGE 2 HOURS SLIDE 1 HOUR]",
        "SELECT max(v) AS n FROM r [RANGE 2 HOURS SLIDE 1 HOUR]",
        "INVOKE sliding",
        "INVOKE sliding AS OF TIMESTAMP '2026-01-01 11:30:00'",
        "SELECT * FROM filled",
    ]
    answers = []
    for upkeep in (False, True):
        pond = pond_of(inline_pond, 6, f"p{upkeep}", design)
        if upkeep:
            pond.maintain()
        pond.sql("CREATE QUERY filled WITH (since='start') AS SELECT count(*) AS n FROM r [RANGE 3 HOURS SLIDE 1 HOUR]")
        pond.drain()
        answers.append([pond.sql(text).to_arrow().to_pylist() for text in texts])
    assert answers[0] == answers[1]
    now, windows, others, invoked, earlier, filled = answers[0]
    assert now == [{"n": 7}] and [row["n"] for row in windows] == [6, *[12] * 10]
    assert not any(row["covered_from"] for row in (*windows, *filled)) and len(filled) == 11
    floor = START + dt.timedelta(minutes=FLOOR)
    assert [(row["n"], row["covered_from"]) for row in others] == [(65, floor)]
    assert [(row["n"], row["covered_from"]) for row in (*invoked, *earlier)] == [(7, floor), (5, floor)]
