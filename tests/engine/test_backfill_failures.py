"""Back-fills that cannot be answered: refused where that is known, given up where not; nobody else waits for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millpond.support.errors import QueryError
from tests.archive.ponds import opened, take

DESIGN = "replicate(0.5 keep 1h) keep 10s"
HOURS = "[RANGE TUMBLING 5 SECONDS]"


def aged(path: Path) -> Any:
    """A pond of whose stream `s` only a copy with half of the rows is left, but for the last ten seconds."""
    pond = opened(path, DESIGN, lateness="0s")
    for epoch in range(6):
        take(pond, epoch * 5000, 5000)
    pond.maintain()
    return pond


@pytest.mark.parametrize(
    "select",
    [
        f"SELECT count(*) AS n FROM s REDUCE sample(0.1) {HOURS}",
        f"SELECT count(*) AS n FROM s REDUCE age('12 s', 0.2) {HOURS}",
        "SELECT DSTREAM(k, count(*) AS n) FROM s REDUCE sample(0.1) [RANGE 1 HOUR] GROUP BY k",
    ],
)
def test_a_query_is_refused_whose_past_is_kept_too_coarsely(tmp_path: Path, select: str) -> None:
    with aged(tmp_path / "p") as pond:
        with pytest.raises(QueryError, match=r"query 'q' cannot be back-filled: .*only copies are left"):
            pond.sql(f"CREATE QUERY q WITH (since = 'start') AS {select}")
        assert not pond._core.catalog.queries
        pond.sql(f"CREATE QUERY q WITH (since = 'start') AS {select.replace('0.1)', '0.6)').replace('0.2)', '0.6)')}")
        pond.drain()
        assert pond.sql("SELECT count(*) > 0 FROM q").rows() == [(True,)]


def test_a_back_fill_that_fails_gives_its_query_up_and_lets_the_others_be(tmp_path: Path) -> None:
    with aged(tmp_path / "p") as pond:
        pond.register_reduction("wrong", lambda run: 1 / 0)
        pond.sql(f"CREATE QUERY a1 WITH (since='start') AS SELECT count(*) AS n FROM s REDUCE wrong() {HOURS}")
        pond.sql(f"CREATE QUERY b1 WITH (since='start') AS SELECT count(*) AS n FROM s REDUCE sample(0.5) {HOURS}")
        pond.sql("CREATE QUERY c1 WITH (since='start') AS SELECT ISTREAM(a) FROM s REDUCE wrong() [NOW]")
        pond.sql("CREATE QUERY d1 WITH (since='start') AS SELECT ISTREAM(a) FROM s REDUCE sample(0.5) [NOW]")
        pond.drain()
        take(pond, 30_000, 5000)
        shown = pond.sql("SHOW QUERIES").to_arrow().to_pylist()
        statuses = {r["query"]: r["status"] for r in shown}
        assert statuses == {"a1": "quarantined", "b1": "live", "c1": "quarantined", "d1": "live"}
        known = pond._core.catalog.query("a1").reason
        assert known.startswith("it cannot be back-filled: ") and "wrong" in known
        with pytest.raises(QueryError, match="is quarantined: it cannot be back-filled"):
            pond.sql("INVOKE a1")
        assert pond.sql("SELECT max(window_end) FROM b1").rows()[0][0].second == 30
        assert pond.sql("SELECT count(*) > 1000 FROM d1").rows() == [(True,)]
    with opened(tmp_path / "p") as pond:  # what is given up stays so, and can be replaced
        pond.drain()
        assert pond._core.catalog.query("a1").status == "quarantined"
        pond.sql(
            f"CREATE OR REPLACE QUERY a1 WITH (since='start') AS SELECT count(*) AS n FROM s REDUCE sample(0.5) {HOURS}"
        )
        pond.drain()
        assert pond.sql("SELECT sum(n) FROM a1").rows() == pond.sql("SELECT sum(n) FROM b1").rows()
