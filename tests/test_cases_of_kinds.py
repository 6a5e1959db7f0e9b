"""How cases of kinds of windows are counted: by what the windows in brackets say."""

from __future__ import annotations

import pytest

from tests.cases_of_kinds import KINDS, SEVERAL, kinds_in

SAID = {
    "registered": "SELECT count(*) FROM s [KIND months]",
    "sessions": "SELECT k, count(*) FROM s [PARTITION BY k SESSION 30 MINUTES MAX 4 HOURS]",
    "now": "SELECT ISTREAM(*) FROM s [NOW]",
    "unbounded": "SELECT a FROM s [ROWS UNBOUNDED] WHERE a[1] = 2",
    "landmark": "SELECT count(*) FROM s [RANGE ALL SINCE '06:00' DAILY ZONE 'Europe/Berlin' SLIDE 1 HOUR]",
    "partitioned rows": "SELECT k, max(v) FROM s [PARTITION BY k ROWS 5 SLIDE 2]",
    "partitioned rows, relation": "SELECT k FROM s [PARTITION BY k ROWS 1]",
    "rows": "SELECT list(v) FROM s [ROWS 5 SLIDE 2 ROWS BY ARRIVAL]",
    "rows, relation": "SELECT v FROM s [ROWS 3] AS x",
    "by tuple": "SELECT count(*) FROM s [RANGE 60 SECONDS SLIDE 1 ROW]",
    "by time": "SELECT count(*) FROM s [RANGE 60 SECONDS SLIDE 1 SECOND]",
    "range, relation": "SELECT count(*) FROM (a UNION ALL b) [RANGE 5 MICROSECONDS]",
    SEVERAL: "SELECT sum(v) [RANGE 2 m SLIDE 1 m] AS a, count(*) [RANGE 1 m SLIDE 1 m] FROM s",
}


@pytest.mark.parametrize("kind", SAID)
def test_each_kind_is_told_by_its_window(kind: str) -> None:
    assert kinds_in(SAID[kind]) == ({kind, "by time"} if kind == SEVERAL else {kind})


def test_there_is_an_example_of_every_kind() -> None:
    assert [*SAID] == [*(name for name, _ in KINDS), SEVERAL]
