"""Statements of thousands of flat terms: asked once, standing, about rows, and over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import millpond
from millpond import StatementError
from millpond.server.serve import serving

TERMS = 5000
EITHER = " OR ".join(f"v = {n}" for n in range(TERMS))
ADDED = " + ".join(["v"] * TERMS)
CASES = " ".join(f"WHEN {n} THEN {n + 1}" for n in range(TERMS))
LISTED = ", ".join(map(str, range(TERMS)))
JOINED = " || ".join(["k"] * TERMS)


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with millpond.open(str(tmp_path_factory.mktemp("long") / "pond"), executor="inline") as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT)")
        yield pond


ONCE: dict[str, tuple[str, object]] = {
    "OR": (f"SELECT count(*) FROM s WHERE {EITHER}", 2),
    "a sum": (f"SELECT max({ADDED}) FROM s WHERE v < 100", 4 * TERMS),
    "text": (f"SELECT length({JOINED}) FROM s WHERE v = 4", TERMS),
    "CASE": (f"SELECT sum(CASE v {CASES} ELSE 0 END) FROM s", 5 + TERMS),
    "IN": (f"SELECT count(*) FROM s WHERE v IN ({LISTED})", 2),
}
STANDING: dict[str, tuple[str, str, object]] = {
    "windows": (f"SELECT count(*) AS x FROM s [RANGE TUMBLING 1 HOUR] WHERE {EITHER}", "SELECT x FROM {}", 2),
    "a relation": (f"SELECT count(*) AS x FROM s [RANGE UNBOUNDED] WHERE v IN ({LISTED})", "SELECT x FROM {}", 2),
    "rows": (f"SELECT count(*) AS x FROM s WHERE {EITHER}", "INVOKE {}", 2),
    "sums of windows": (f"SELECT min({ADDED}) AS x FROM s [RANGE TUMBLING 1 HOUR]", "SELECT x FROM {}", 4 * TERMS),
}


def test_standing(pond: Any) -> None:
    for number, (text, _, _) in enumerate(STANDING.values()):
        pond.sql(f"CREATE QUERY q{number} AS {text}")
    rows = [{"ts": "2024-01-01 00:00:01", "k": "a", "v": 4}, {"ts": "2024-01-01 00:00:02", "k": "b", "v": TERMS - 1},
            {"ts": "2024-01-01 00:00:03", "k": "c", "v": TERMS}]  # fmt: skip
    pond.ingest("s", rows)
    pond.drain(final=True)
    for number, (name, (_, asked, expected)) in enumerate(STANDING.items()):
        assert pond.sql(asked.format(f"q{number}")).rows() == [(expected,)], name
    for name, (text, expected) in ONCE.items():
        assert pond.sql(text).rows() == [(expected,)], name


def test_over_http(pond: Any) -> None:
    text = f"SELECT count(*) AS n FROM s WHERE {' OR '.join(f'v = {n} AND v > {n - 1}' for n in range(4200))}"
    assert len(text) > 100_000
    with serving(pond) as url, millpond.connect(url) as remote:
        assert remote.sql(text).rows() == [(1,)]
        remote.sql(f"CREATE QUERY posted AS {text}")
        assert remote.sql("INVOKE posted").rows() == [(1,)]


def _nested(count: int) -> str:
    return "(1 + " * count + "v" + ")" * count


@pytest.mark.parametrize("expression", [_nested(3000), " - ".join(["v"] * 3000)], ids=["parentheses", "differences"])
@pytest.mark.parametrize("text", ["SELECT sum({}) AS x FROM s [RANGE TUMBLING 1 HOUR]", "SELECT {} AS x FROM s"])
def test_what_is_deep_is_refused(pond: Any, text: str, expression: str) -> None:
    asked: Callable[[str], Any] = pond.sql
    with pytest.raises(StatementError, match=r"nested too deeply|depth"):
        asked(f"CREATE QUERY deep AS {text.format(expression)}")
