"""A past that retention has taken: answered from what is left, with a mark; an error where nothing of it is."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import millpond
from millpond.support.errors import QueryError
from tests.archive.ponds import START

FIRST = "2026-01-01 00:00:"
OLD = f"SELECT count(*) AS n FROM s BEGIN '{FIRST}01' END '{FIRST}09'"


def pond_of(path: Path, design: str) -> Any:
    """A pond whose stream has run for 60 s, ten rows a second: twelve epochs of five seconds."""
    pond = millpond.open(path, executor="inline")
    pond.sql(f"CREATE STREAM s (ts TIMESTAMP, a BIGINT) WITH (event_time='ts', archive='{design}')")
    pond.sql(f"""
        CREATE QUERY w AS SELECT count(*) AS n FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS];
        CREATE QUERY r AS SELECT count(*) AS n FROM s [RANGE 5 SECONDS];
        CREATE QUERY old AS {OLD}
    """)
    for epoch in range(12):
        a = np.arange(epoch * 50, epoch * 50 + 50)
        pond.ingest("s", pa.table({"ts": pa.array(START + a * 100_000, pa.timestamp("us")), "a": a}))
        pond.drain()
    return pond


def between(begin: int, end: int, reduce: str = "") -> str:
    """A question about seconds of the minute."""
    return f"SELECT count(*) AS n FROM s {reduce} BEGIN '{FIRST}{begin:02}' END '{FIRST}{end:02}'"


def test_what_is_asked_of_a_past_that_is_gone(tmp_path: Path) -> None:
    with pond_of(tmp_path / "p", "replicate(0.5 keep 1h) keep 20s") as pond:
        for upkeep in (False, True):  # whether files have been removed yet makes no difference to who asks for rows
            if upkeep:
                pond.maintain()
            nothing = rf"no row from {FIRST}01 to {FIRST}09 is left; there are rows from {FIRST}39.9"
            for question in (OLD, "INVOKE old"):
                with pytest.raises(QueryError, match=nothing) as caught:
                    pond.sql(question)
                assert not upkeep or f"50 % dropped from {FIRST}00 on (REDUCE sample(0.5))" in str(caught.value)
            # Part of it is left: an answer that says so.
            part = pond.sql(between(30, 45))
            assert (part.rows(), part.message) == ([(52,)], f"rows of s before {FIRST}39.900000 are gone")
            assert pond.sql(between(45, 50)).message == ""
            assert pond.sql("SELECT count(*) FROM s").message == part.message
            # What copies have of it, and what they have not.
            [reduced] = pond.sql(between(1, 9, "REDUCE sample(0.5)")).to_arrow().to_pylist()
            assert 50 < reduced["n"] < 110 and not reduced["exact"]
            with pytest.raises(QueryError, match="only copies are left, with 50 %"):
                pond.sql(between(1, 9, "REDUCE sample(0.2)"))
        for query in ("w", "r"):
            with pytest.raises(QueryError, match=rf"from {FIRST}03 to {FIRST}08 is left; there are rows from"):
                pond.sql(f"INVOKE {query} AS OF TIMESTAMP '{FIRST}08'")
        [cut] = pond.sql(f"INVOKE w AS OF TIMESTAMP '{FIRST}42'").to_arrow().to_pylist()
        assert cut["n"] == 22 and cut["covered_from"] == dt.datetime(2026, 1, 1, 0, 0, 39, 900_000)
        later = "BEGIN '2027-01-01' END '2027-01-02'"  # nothing is there, and nothing is gone
        assert pond.sql(f"SELECT count(*) AS n FROM s {later}").rows() == [(0,)]


def test_nothing_is_gone_where_everything_is_kept(tmp_path: Path) -> None:
    with pond_of(tmp_path / "p", "plain") as pond:
        pond.maintain()
        assert pond.sql("INVOKE old").rows()[0][-1] == 81
        result = pond.sql("SELECT count(*) AS n FROM s BEGIN '2020-01-01' END '2020-01-02'")
        assert (result.rows(), result.message) == ([(0,)], "")
        pond.sql("INVOKE w AS OF TIMESTAMP '2020-01-01 00:00:00'; INVOKE r AS OF TIMESTAMP '2020-01-01 00:00:00'")
