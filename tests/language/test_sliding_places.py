"""A window with SLIDE stands in a SELECT of its own; elsewhere the error says so, and what would work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millpond.support.errors import StatementError

Factory = Callable[..., Any]

WINDOW = "[RANGE 30 SECONDS SLIDE 30 SECONDS]"


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT c + 1 FROM (SELECT count(*) AS c FROM x {WINDOW})",
        f"WITH w AS (SELECT count(*) AS c FROM x {WINDOW}) SELECT c + 1 FROM w",
        "SELECT c + 1 FROM (SELECT count(*) AS c FROM x [RANGE TUMBLING 30 SECONDS])",
        f"SELECT max(c) + 1 FROM (SELECT c FROM (SELECT count(*) AS c FROM x {WINDOW}) UNION ALL SELECT n FROM x)",
    ],
)
def test_ad_hoc_it_may_be_a_part_of_others(inline_pond: Factory, text: str) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM x (ts TIMESTAMP, n INTEGER) WITH (event_time='ts')")
    pond.ingest("x", [{"ts": "2024-01-01", "n": 1}, {"ts": "2024-01-01 00:00:30", "n": 1}])
    pond.drain()
    assert pond.sql(text).rows() == [(2,)]


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT count(*) FROM x {WINDOW} JOIN (SELECT n FROM x) AS y USING (n)",
        f"SELECT count(*) FROM (SELECT n FROM x) AS y LEFT JOIN x {WINDOW} ON y.n = x.n",
    ],
)
def test_the_error_tells_of_the_slide(inline_pond: Factory, text: str) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM x (ts TIMESTAMP, n INTEGER) WITH (event_time='ts')")
    with pytest.raises(StatementError, match="SELECT of its own") as caught:
        pond.sql(text)
    assert text[caught.value.start] == "x"
