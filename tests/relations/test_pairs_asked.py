"""PAIRS that are asked for by INVOKE; rows on which a function fails; what PAIRS and ISTREAM cannot stand around."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import millpond

KINDS = {
    "both": "a.k, v, w) FROM a [RANGE 10 MINUTES] JOIN b [RANGE 5 MINUTES] ON a.k = b.k",
    "bare": "a.k, v, w) FROM a [RANGE 10 MINUTES] LEFT JOIN b [NOW] ON a.k = b.k",
    "anti": "a.k, v) FROM a [RANGE 10 MINUTES] ANTI JOIN b [NOW] ON a.k = b.k",
    "cells": "a.k, v, w) FROM a, b [RANGE TUMBLING 10 MINUTES] WHERE a.k = b.k",
    "latest": "a.k, v, w) FROM a [NOW] ASOF LEFT JOIN b [RANGE 10 MINUTES] ON a.k = b.k AND a.ts >= b.ts",
}


def row(minute: int, k: int, name: str) -> dict[str, Any]:
    return {"ts": f"2026-03-01 08:{minute:02}:00", "k": k, name: minute}


def asked(pond: Any, text: str) -> list[tuple[Any, ...]]:
    return [(at.minute, *rest) for at, *rest in pond.sql(text).rows()]


def test_invoke_gives_the_pairs_of_the_window_that_ends_now(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "p", executor="inline", shards=2) as pond:
        for name, column in (("a", "v"), ("b", "w")):
            pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, k INTEGER, {column} INTEGER)"
                     " WITH (event_time='ts', lateness='1 minute')")  # fmt: skip
        for name, text in KINDS.items():
            pond.sql(f"CREATE QUERY {name} AS SELECT PAIRS({text}")
            assert asked(pond, f"INVOKE {name}") == []
        pond.ingest("a", [row(m, k, "v") for m, k in ((1, 1), (3, 2), (12, 1), (14, 3))])
        pond.ingest("b", [row(m, k, "w") for m, k in ((2, 1), (9, 2), (13, 1), (20, 3))])
        pond.drain()
        # NOW is 08:14, how far both are: that of 08:20 is not seen yet, and one without a partner has none so far.
        assert {name: asked(pond, f"INVOKE {name}") for name in KINDS} == {
            "both": [(9, 2, 3, 9, False), (13, 1, 12, 13, False)],
            "bare": [(9, 2, 3, 9, False), (13, 1, 12, 13, False), (14, 3, 14, None, False)],
            "anti": [(14, 3, 14, False)],
            "cells": [(13, 1, 12, 13, False)],
            "latest": [(12, 1, 12, 2, False), (14, 3, 14, None, False)],
        }
        at = "AS OF TIMESTAMP '2026-03-01 08:08:00'"
        assert asked(pond, f"INVOKE anti {at}") == [(3, 2, 3, True)]
        assert asked(pond, f"INVOKE bare {at}") == [(2, 1, 1, 2, True), (3, 2, 3, None, True)]
        assert asked(pond, "INVOKE cells AS OF WATERMARK") == []
        last = pond.sql("INVOKE both AS OF EPOCH 1").rows()
        assert last and last[-1][0] <= dt.datetime(2026, 3, 1, 8, 14)


def test_a_row_on_which_a_function_fails_is_a_dead_letter(tmp_path: Path) -> None:
    def halves(value: int) -> int:
        if value % 2:
            raise ValueError(f"{value} is odd")
        return value // 2

    with millpond.open(tmp_path / "p", executor="inline", shards=2) as pond:
        pond.register_function("halves", halves, arguments=["INTEGER"], returns="INTEGER")
        for name, column in (("a", "v"), ("b", "w")):
            pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, k INTEGER, {column} INTEGER) WITH (event_time='ts')")
        select = (
            "a.k, halves(v) + w AS x) FROM a [RANGE 10 MINUTES] LEFT JOIN b [RANGE 10 MINUTES] ON a.k = halves(b.k)"
        )
        pond.sql(f"CREATE QUERY q AS SELECT PAIRS({select}")
        pond.ingest("a", [row(m, k, "v") for m, k in ((2, 1), (3, 1), (4, 5))])
        pond.ingest("b", [row(m, k, "w") for m, k in ((5, 2), (6, 3), (59, 2))])
        pond.drain()
        pond.sql(f"CREATE QUERY later WITH (since='start') AS SELECT PAIRS({select}")
        pond.drain()
        for name in ("q", "later"):
            got = pond.sql(f"SELECT k, x FROM {name} ORDER BY ALL").rows()
            assert got == [(1, 6), (5, None)], name
        letters = pond.sql("SELECT source, reason FROM dead(a) UNION ALL SELECT source, reason FROM dead(b)").rows()
        assert {who for who, _ in letters} == {"query later", "query q"}
        assert len(letters) == 4 and all("3 is odd" in why for _, why in letters)
        assert {q["status"] for q in pond.status()["queries"].values()} == {"live"}


@pytest.mark.parametrize(
    ("text", "said", "at"),
    [
        (
            "SELECT PAIRS(DISTINCT a.k) FROM a [NOW] JOIN a [NOW] b ON true",
            "PAIRS gives each pair by itself",
            "DISTINCT",
        ),
        ("SELECT PAIRS() FROM a [NOW] JOIN a [NOW] b ON true", "PAIRS needs columns", ")"),
        ("SELECT ISTREAM() FROM a [NOW]", "ISTREAM needs columns", ")"),
        ("SELECT ISTREAM(DISTINCT k) FROM a [NOW]", "SELECT ISTREAM(*) FROM (SELECT DISTINCT", "DISTINCT"),
    ],
)
def test_what_they_cannot_stand_around(asking: Any, text: str, said: str, at: str) -> None:
    with pytest.raises(millpond.support.errors.StatementError) as fault:
        asking.sql(text)
    assert said in fault.value.message and text[fault.value.start or 0 :].startswith(at)


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with millpond.open(tmp_path_factory.mktemp("asked") / "p", executor="inline") as pond:
        pond.sql("CREATE STREAM a (ts TIMESTAMP, k INTEGER) WITH (event_time='ts')")
        yield pond
