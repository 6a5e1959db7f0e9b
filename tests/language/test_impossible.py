"""A constant that is no value of what it is compared with is an error of the statement, in queries of every kind."""

from __future__ import annotations

import pytest
from tests.relations.setting import Names, stream

from millpond.language import bind_standing, parse
from millpond.support.errors import StatementError


@pytest.mark.parametrize("window", ["", " [RANGE 1 MINUTE SLIDE 1 MINUTE]", " [ROWS 3 SLIDE 1]", " [NOW]", " [ROWS 3]"])
@pytest.mark.parametrize(
    ("condition", "refused"),
    [
        ("n > 'abc'", True),
        ("n = '7'", False),
        ("NOT (n IN ('1', 'x') AND n > 2)", False),  # an OR: evaluated as it is
        ("n > 2 AND n BETWEEN '1' AND 'x'", True),
        ("ts < 'soon'", True),
        ("k > 'abc'", False),
    ],
)
def test_constants(window: str, condition: str, refused: bool) -> None:
    listed = "count(*) AS c" if "SLIDE" in window else "n"
    [statement] = parse(f"CREATE QUERY q AS SELECT {listed} FROM s{window} WHERE {condition}")
    names = Names(stream("s", n="INTEGER", k="VARCHAR"))
    if not refused:
        bind_standing(statement.select, names)
        return
    with pytest.raises(StatementError, match="is not a value of type") as caught:
        bind_standing(statement.select, names)
    assert statement.script[caught.value.start : caught.value.end] in ("'abc'", "'x'", "'soon'")
