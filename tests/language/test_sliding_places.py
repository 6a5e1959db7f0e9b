"""A window with SLIDE stands in a query of its own; elsewhere the error says so, and what would work."""

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
        f"WITH w AS (SELECT count(*) AS c FROM x {WINDOW}) SELECT * FROM w",
        "SELECT count(*) FROM x [RANGE 30 SECONDS SLIDE 10 SECONDS], x [RANGE 30 SECONDS SLIDE 10 SECONDS] y",
        "SELECT c + 1 FROM (SELECT count(*) AS c FROM x [RANGE TUMBLING 30 SECONDS])",
    ],
)
def test_the_error_tells_of_the_slide(inline_pond: Factory, text: str) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM x (ts TIMESTAMP, n INTEGER) WITH (event_time='ts')")
    with pytest.raises(StatementError, match="stands in a query of its own") as caught:
        pond.sql(text)
    assert text[caught.value.start] == "x"
    assert "CREATE QUERY" in caught.value.expected


def test_without_a_window_it_still_tells_of_one(inline_pond: Factory) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM x (ts TIMESTAMP, n INTEGER) WITH (event_time='ts')")
    with pytest.raises(StatementError, match="without a window behind it"):
        pond.sql("SELECT c + 1 FROM (SELECT count(*) AS c FROM x)")
