"""Errors about a name point at the name, not at letters that look like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millpond.support.errors import StatementError

Factory = Callable[..., Any]

#: Statements that fail, each with the column of the name that is wrong and the length of the caret.
CASES = [
    ("CREATE STREAM r (ts TIMESTAMP) WITH (event_time='ts')", 15, 1),
    ("CREATE STREAM s (ts TIMESTAMP) WITH (event_time='ts')", 15, 1),
    ("CREATE STREAM \"stream\" (ts TIMESTAMP) WITH (event_time='ts')", 15, 8),
    ("/* r */ CREATE QUERY r AS SELECT count(*) FROM s [RANGE TUMBLING 1 SECOND]", 22, 1),
    ("CREATE TABLE e (x INTEGER) WITH (path='/tmp/*.csv')", 14, 1),
    ("DROP STREAM o", 13, 1),
    ("DROP QUERY q", 12, 1),
    ("INVOKE i", 8, 1),
    ("SHOW STREAMS; ALTER QUERY a PAUSE", 27, 1),
    ("EXPLAIN e2", 9, 2),
]


@pytest.mark.parametrize(("text", "column", "length"), CASES)
def test_the_caret_is_under_the_name(inline_pond: Factory, text: str, column: int, length: int) -> None:
    pond = inline_pond()
    for name in ("r", "s", '"stream"', "e"):
        pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP) WITH (event_time='ts')")
    with pytest.raises(StatementError) as caught:
        pond.sql(text)
    assert (caught.value.column, caught.value.end - caught.value.start) == (column, length), str(caught.value)
