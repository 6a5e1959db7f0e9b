"""ALTER SYSTEM and ALTER QUERY … SET: effective at the next epoch, durable, wrong names and values told by place."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.support.errors import MillpondError, StatementError
from tests.quick import quick_folder

START = dt.datetime(2026, 1, 1)


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as path:
        yield path / "pond"


def settings(pond: Any) -> dict[str, tuple[str, str]]:
    return {row["setting"]: (row["value"], row["from"]) for row in pond.sql("SHOW SETTINGS").to_arrow().to_pylist()}


def put(pond: Any, *seconds: float) -> None:
    pond.ingest("s", {"ts": [START + dt.timedelta(seconds=s) for s in seconds], "v": [1] * len(seconds)})
    pond.step()


def test_settings_change_while_the_pond_runs(folder: Path) -> None:
    with millpond.open(folder, executor="inline", target=1.5) as pond:
        assert settings(pond)["target"] == ("1.5", "opening")
        pond.sql("CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts')")
        said = pond.sql("ALTER SYSTEM SET (target = 0.5, rows_per_epoch = 2, share = off)").message
        assert said == "target = 0.5 and rows_per_epoch = 2 and share = false from the next epoch on"
        assert settings(pond)["target"] == ("0.5", "ALTER SYSTEM")
        for second in range(5):
            pond.ingest("s", {"ts": [START + dt.timedelta(seconds=second)], "v": [1]})
        pond.step()
        assert pond.status()["streams"]["s"]["rows"] == 2  # the next epoch takes no more
        pond.sql("ALTER SYSTEM SET hot_bytes = 100000")
        pond.drain()
    with millpond.open(folder, executor="inline", rows_per_epoch=7) as pond:
        found = settings(pond)
        assert found["target"] == ("0.5", "ALTER SYSTEM")
        assert found["rows_per_epoch"] == ("7", "opening")  # what an opening gives goes first
        assert found["share"] == ("false", "ALTER SYSTEM")
        assert found["compact_files"] == ("8", "default")
        assert pond._core.controllers.pace.target == 0.5
        said = pond.sql("ALTER SYSTEM SET (target = DEFAULT, rows_per_epoch = DEFAULT, share = default)").message
        assert said == "target = 2.0 and rows_per_epoch = 7 and share = true from the next epoch on"
        assert pond._core.controllers.pace.target == 2
        assert settings(pond)["target"] == ("2.0", "default")
        assert settings(pond)["rows_per_epoch"] == ("7", "opening")
    with millpond.open(folder, executor="inline") as pond:
        assert {settings(pond)[n][1] for n in ("target", "rows_per_epoch")} == {"default"}
        assert settings(pond)["share"] == ("true", "ALTER SYSTEM")


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("ALTER SYSTEM SET targt = 1", "targt", "did you mean 'target'"),
        ("ALTER SYSTEM SET target = 'fast'", "'fast'", "seconds such as 2.0"),
        ("ALTER SYSTEM SET rows_per_epoch = 0", "0", "a number such as"),
        ("ALTER SYSTEM SET eager_rows = -5", "-5", "'-5' is not a whole number from 0 on"),
        ("ALTER SYSTEM SET target = -", "-", "'-' is not a value"),
        ("ALTER SYSTEM SET shards = 4", "shards", "cannot change while the pond is open"),
        ("ALTER SYSTEM SET share", "", "needs a value"),
        ("ALTER SYSTEM target = 1", "target", "SET name = value"),
        ("ALTER QUERY q SET revise = '1 hour'", "revise", "did you mean 'revise_for'"),
        ("ALTER QUERY q SET revise_for = 'long'", "'long'", "a span of time"),
        ("ALTER QUERY q SET empty = 'report'", "empty", "option 'empty' stays as it was created"),
        ("ALTER QUERY nobody SET revise_for = '1 hour'", "nobody", "no query 'nobody'"),
        ("ALTER SYSTM SET target = 1", "SYSTM", "SYSTEM"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(shared: Any, text: str, place: str, hint: str) -> None:
    with pytest.raises(StatementError) as caught:
        shared.sql(text)
    assert hint in str(caught.value)
    if place:
        assert text[caught.value.start : caught.value.end] == place


@pytest.fixture(scope="module")
def shared() -> Iterator[Any]:
    with quick_folder() as path, millpond.open(path / "pond", executor="inline") as pond:
        pond.sql(
            "CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts');"
            "CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS];"
            "CREATE QUERY r AS SELECT * FROM s WHERE v > 1;"
            "CREATE QUERY i AS SELECT ISTREAM(v) FROM s [RANGE 10 SECONDS]"
        )
        yield pond


def test_options_that_cannot_change_any_more(shared: Any) -> None:
    with pytest.raises(StatementError, match="is a row query"):
        shared.sql("ALTER QUERY r SET revise_for = '1 hour'")
    with pytest.raises(StatementError, match="a column of its own"):
        shared.sql("ALTER QUERY q SET early = '1s'")
    with pytest.raises(StatementError, match="can only become shorter"):
        shared.sql("ALTER QUERY i SET revise_for = '10 days'")
    assert "altered" in shared.sql("ALTER QUERY i SET revise_for = '10 minutes'").message


def test_how_long_windows_are_revised(folder: Path) -> None:
    """Shorter at once. Longer from now on: windows whose rows may be gone stay as they are, and are counted."""

    def counts(pond: Any) -> dict[int, int]:
        rows = pond.sql("SELECT window_end, n FROM q").rows()
        return {round((end.replace(tzinfo=None) - START).total_seconds()): n for end, n in rows}

    def lost(pond: Any) -> int:
        return int(pond.status()["queries"]["q"]["too_late"])

    with millpond.open(folder, executor="inline", shards=1, compact_files=2) as pond:
        pond.sql(
            "CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts');"
            "CREATE QUERY q WITH (revise_for='1 minute', beyond='drop') AS"
            " SELECT count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS]"
        )
        put(pond, 5, 15, 25, 100)
        put(pond, 45)  # within the minute: the window until 50 is made
        assert counts(pond) == {10: 1, 20: 1, 30: 1, 50: 1}
        pond.sql("ALTER QUERY q SET revise_for = '20 seconds'")
        put(pond, 46)
        assert (counts(pond)[50], lost(pond)) == (1, 1)
        pond.sql("ALTER QUERY q SET revise_for = '1 day'")
        put(pond, 47)  # it ends before what was kept when the time became longer
        assert (counts(pond)[50], lost(pond)) == (1, 2)
    with millpond.open(folder, executor="inline") as pond:
        put(pond, 200)
        put(pond, 85, 47)  # a hundred seconds late: revised now, since its rows have been kept
        assert (counts(pond)[90], counts(pond)[50], lost(pond)) == (1, 1, 3)
        assert "for 1d behind" in str(pond.sql("EXPLAIN q").rows())


def test_an_error_names_what_there_is_at_an_opening(folder: Path) -> None:
    with pytest.raises(MillpondError, match="there is no setting 'shard'"):
        millpond.open(folder, executor="inline", shard=1)
    with pytest.raises(MillpondError, match=r"setting 'target': '-1' is not a number.*seconds such as"):
        millpond.open(folder, executor="inline", target=-1)


def test_options_go_back_to_what_they_are_when_nobody_gives_them(folder: Path) -> None:
    with millpond.open(folder, executor="inline") as pond:
        pond.sql("""
            CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts');
            CREATE QUERY q WITH (adapt = 'sweep', adapt_window = 50, revise_for = '1 hour') AS
                SELECT count(*) AS n FROM s [TUMBLING 10 SECONDS];
            ALTER QUERY q SET (adapt = default, adapt_window = DEFAULT, adapt_probability = 0.5)
        """)
    with millpond.open(folder, executor="inline") as pond:
        (query,) = pond._core.catalog.queries.values()
        options = query.definition.options
        assert (options.adapt, options.adapt_window, options.adapt_probability) == ("a_greedy", None, 0.5)
        assert options.revise_for == 3_600_000_000
        pond.sql("ALTER QUERY q SET revise_for = DEFAULT")
        (query,) = pond._core.catalog.queries.values()
        assert query.definition.options.revise_for is None
