"""A SELECT over answers reads those that it can show: the same rows as from all of them, out of fewer files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import millpond.answers.standing_answers as answers
from millpond.support.errors import QueryError
from tests.quick import plain_duckdb

#: Conditions, and whether they leave answers unread.
CONDITIONS = {
    "q WHERE window_end > TIMESTAMP '2026-01-01 00:30:00'": True,
    "q WHERE window_end >= '2026-01-01 00:30:00'": True,
    "q WHERE TIMESTAMP '2026-01-01 00:10:00' >= window_end AND n > 0": True,
    "q WHERE window_end BETWEEN TIMESTAMP '2026-01-01 00:10:00' AND '2026-01-01 00:15:00'": True,
    "q WHERE window_end < TIMESTAMP '2026-01-01 00:12:00' + INTERVAL 3 MINUTES": True,
    "q x WHERE (x.window_end = TIMESTAMP '2026-01-01 00:20:00')": True,
    "q WHERE window_start >= TIMESTAMPTZ '2026-01-01 00:30:00+00:00'": True,
    "q WHERE window_end < TIMESTAMP '1980-01-01'": True,
    "q ALL REVISIONS WHERE window_end <= TIMESTAMP '2026-01-01 00:05:00'": True,
    "q x JOIN (SELECT max(window_end) AS e FROM q WHERE window_end < '2026-01-01 00:15:00') y ON x.window_end = y.e "
    "WHERE x.window_end < TIMESTAMP '2026-01-01 00:25:00'": True,
    "q x LEFT JOIN q y ON y.n = x.n + 1 WHERE x.window_end > TIMESTAMP '2026-01-01 00:30:00'": False,
    "q WHERE window_end > TIMESTAMP '2026-01-01 00:30:00' OR n = 1": False,
    "q WHERE window_start < TIMESTAMP '2026-01-01 00:30:00'": False,
    "q WHERE NOT window_end > TIMESTAMP '2026-01-01 00:30:00'": False,
    "q WHERE window_end > window_start": False,
    "q WHERE n > 20": False,
    "q x (window_end, window_start, n, v, revision) WHERE window_end <= TIMESTAMP '2026-01-01 00:10:00'": False,
}  # fmt: skip


def test_what_cannot_be_shown_is_not_read(inline_pond: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pond = inline_pond(compact_files=1000)
    pond.sql("CREATE STREAM s (ts TIMESTAMP, v INTEGER) WITH (event_time = 'ts')")
    pond.sql("CREATE QUERY q AS SELECT sum(v) AS n, v FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE] GROUP BY v")
    for minute in range(40):
        late = [{"ts": f"2026-01-01 00:{minute - 3:02}:30", "v": minute}] if minute % 10 == 9 else []
        pond.ingest("s", [{"ts": f"2026-01-01 00:{minute:02}:00", "v": minute}, *late])
        pond.drain()
    whole = {name: pond.sql(f"SELECT * FROM {name}").to_arrow() for name in ("q", "q ALL REVISIONS")}
    read: list[int] = []
    original = answers.read_chunks

    def counted(*arguments: Any) -> Any:
        for chunk in original(*arguments):
            read.append(chunk.table.num_rows)
            yield chunk

    monkeypatch.setattr(answers, "read_chunks", counted)
    pond.sql("SELECT * FROM q")
    all_rows = sum(read)
    for text, less in CONDITIONS.items():
        read.clear()
        got = pond.sql(f"SELECT * FROM {text}").rows()
        with plain_duckdb() as db:
            db.execute("SET TimeZone = 'UTC'")
            db.register("q_all", whole["q ALL REVISIONS"])
            db.register("q", whole["q"])
            wanted = db.sql(f"SELECT * FROM {text.replace('q ALL REVISIONS', 'q_all')}").fetchall()
        assert sorted(got, key=repr) == sorted(wanted, key=repr), text
        assert (sum(read) < all_rows) == less, text

    monkeypatch.setattr(answers, "MOST_ROWS", 10)
    assert pond.sql("SELECT n FROM q WHERE window_end <= TIMESTAMP '2026-01-01 00:03:00'").to_arrow().num_rows == 5
    with pytest.raises(QueryError, match=r"more than 10 rows.*WHERE window_end > TIMESTAMP '…'.*subscribe\('q'\)"):
        pond.sql("SELECT n FROM q")


def test_relations_by_their_instants(inline_pond: Callable[..., Any]) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, v INTEGER) WITH (event_time = 'ts')")
    pond.sql("CREATE QUERY r AS SELECT ISTREAM(v) FROM s [RANGE 1 MINUTE]")
    pond.ingest("s", [{"ts": f"2026-01-01 00:{minute:02}:00", "v": minute} for minute in range(10)])
    pond.drain(final=True)
    text = "SELECT v FROM r WHERE \"at\" >= TIMESTAMP '2026-01-01 00:07:00' ORDER BY v"
    assert pond.sql(text).to_arrow()["v"].to_pylist() == [7, 8, 9]
