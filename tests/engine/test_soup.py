"""Row queries beside epochs: registering, dropping and matching at once; what a stream without any costs."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import millpond
from millpond.manifests.records import read_manifest
from millpond.support.errors import MillpondError, StatementError
from millpond.synopses.predicate_index.block_files import read_blocks
from millpond.synopses.predicate_index.matches import rows_of


def pond_with(tmp_path: Path, **settings: Any) -> millpond.Pond:
    pond = millpond.open(tmp_path / "pond", executor="inline", eager_rows=200, **settings)
    pond.sql("CREATE STREAM s (ts TIMESTAMP, a BIGINT, t TEXT) WITH (event_time='ts')")
    return pond


def batch(number: int, size: int = 300) -> pa.Table:
    rng = np.random.default_rng(number)
    times = pa.array(np.arange(size) + number * size, pa.timestamp("us"))
    return pa.table({"ts": times, "a": rng.integers(0, 100, size), "t": ["7"] * size})


def feed(pond: millpond.Pond, number: int, size: int = 300) -> None:
    pond.ingest("s", batch(number, size))
    pond.step()


def test_a_stream_without_row_queries_has_no_files(tmp_path: Path) -> None:
    with pond_with(tmp_path) as pond:
        feed(pond, 0)
        assert not os.path.exists(tmp_path / "pond" / "hot") and not os.path.exists(tmp_path / "pond/catalog/boxes")
        assert read_manifest(pond.path, 1).register == 0


def test_new_rows_meet_old_queries_in_the_map_task(tmp_path: Path) -> None:
    with pond_with(tmp_path) as pond:
        pond.sql("CREATE QUERY q AS SELECT a FROM s WHERE a < 10")
        pond.sql("CREATE QUERY none WITH (materialize = 'none') AS SELECT a FROM s WHERE a < 10")
        feed(pond, 0)
        feed(pond, 1, size=100)  # too few to be worth a file
        [file] = os.listdir(tmp_path / "pond/hot/s-1")
        assert file == "e000000000001-00000.blocks"
        found = read_blocks(str(tmp_path / "pond/hot/s-1" / file))
        assert found is not None
        [(_, matches)] = found
        register = pond._core.register
        query = register.id_of("q")
        assert matches is not None and query is not None and register.id_of("none") not in matches.queries
        assert len(matches.rows(query)) == np.sum(batch(0)["a"].to_numpy() < 10)  # type: ignore[arg-type]  # values of one kind
        pond.sql("DROP STREAM s CASCADE")
        pond.maintain()
        assert os.listdir(tmp_path / "pond/hot") == [] and os.listdir(tmp_path / "pond/catalog/boxes") == []


def test_a_factor_that_fails_is_told_once(tmp_path: Path) -> None:
    with pond_with(tmp_path) as pond:
        pond.sql("CREATE QUERY one AS SELECT a FROM s WHERE CAST(t AS INTEGER) > a")
        pond.sql("CREATE QUERY two AS SELECT ts FROM s WHERE CAST(t AS INTEGER) > a")
        for size in (3, 500):
            rows = batch(size, size).set_column(2, "t", pa.array(["7"] * (size - 1) + ["odd"]))
            pond.ingest("s", rows)
            pond.step()
        assert [s for (s,) in pond.sql("SELECT source FROM dead(s)").rows()] == ["query one", "query one"]
        pond.sql("DROP QUERY one")
        pond.ingest("s", batch(900, 1).set_column(2, "t", pa.array(["odd"])))
        pond.step()
        assert sorted(s for (s,) in pond.sql("SELECT source FROM dead(s)").rows())[-1] == "query two"
        assert pond.sql("SHOW STREAMS").to_arrow()["dead_letters"].to_pylist() == [3]


def test_files_beyond_memory_are_swept(tmp_path: Path) -> None:
    with pond_with(tmp_path, hot_bytes=40_000) as pond:
        pond.sql("CREATE QUERY q AS SELECT a FROM s WHERE a < 10")
        for number in range(12):
            feed(pond, number)
        before = sorted(os.listdir(tmp_path / "pond/hot/s-1"))
        pond.maintain()
        after = sorted(os.listdir(tmp_path / "pond/hot/s-1"))
        assert len(before) == 12 and 0 < len(after) < 12 and after == before[-len(after) :]


def test_one_name_one_thing(tmp_path: Path) -> None:
    with pond_with(tmp_path) as pond:
        pond.sql("CREATE QUERY q AS SELECT a FROM s WHERE a < 10")
        for text in (
            "CREATE QUERY Q AS SELECT a FROM s",
            "CREATE STREAM q (ts TIMESTAMP)",
            "DROP STREAM q",
            "DROP STREAM s",
        ):
            with pytest.raises(MillpondError):
                pond.sql(text)
        with pytest.raises(StatementError, match=r"line 1, column 15: 'q' is a row query(.|\n)*INVOKE q"):
            pond.sql("SELECT * FROM q")
        assert "exists" in pond.sql("CREATE QUERY IF NOT EXISTS q AS SELECT a FROM s").message
        assert (
            "version 2"
            in pond.sql("CREATE OR REPLACE QUERY q AS SELECT count(*) AS n FROM s [TUMBLING 1 MINUTE]").message
        )
        assert pond.sql("SHOW QUERIES").to_arrow()["version"].to_pylist() == [2]
        assert "version 3" in pond.sql("CREATE OR REPLACE QUERY q AS SELECT a FROM s WHERE a < 5").message
        assert pond.sql("SHOW QUERIES").to_arrow()["query"].to_pylist() == ["q"]
        assert pond.describe("Q")["version"] == 3 and pond.status()["row_queries"]["live"] == 1
        pond.sql("ALTER QUERY q PAUSE")
        feed(pond, 0)
        assert len(pond.sql("INVOKE q").rows()) == np.sum(batch(0)["a"].to_numpy() < 5)
        pond.sql("DROP QUERY q; CREATE STREAM q (ts TIMESTAMP)")
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        assert pond.sql("SHOW QUERIES").rows() == []


def test_registering_and_dropping_beside_epochs(tmp_path: Path) -> None:
    """Every file of blocks agrees with what its queries say, whatever came and went meanwhile."""
    faults: list[BaseException] = []
    stop = threading.Event()
    with pond_with(tmp_path) as pond:
        queries, register = pond._interpreter.rows, pond._core.register

        def client(number: int) -> None:
            mine: list[int] = []
            try:
                for count in range(200):
                    if stop.is_set():
                        break
                    text = f"SELECT a FROM s WHERE a >= {number * 10} AND a < {number * 10 + 7 + count % 9}"
                    mine += register.add([queries.new(queries.bind(text), text)])
                    if count % 3 == 2:
                        register.drop(mine.pop())
                    if count % 4 == 3:
                        register.set_status(mine[0], "paused")
                        register.set_status(mine[0], "live")
            except BaseException as error:
                faults.append(error)

        threads = [threading.Thread(target=client, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for number in range(12):
            feed(pond, number)
            if number % 4 == 3:
                pond.maintain()
        stop.set()
        for thread in threads:
            thread.join()
        assert not faults
        live = set(register.on_stream(1).tolist())
        assert live == set(register.table(1).queries())
        seen = 0
        for file in os.listdir(tmp_path / "pond/hot/s-1"):
            found = read_blocks(str(tmp_path / "pond/hot/s-1" / file))
            assert found is not None
            for block, matches in found:
                assert matches is not None
                for query in live & set(matches.queries.tolist()):
                    got = matches.rows(query)
                    boxes = register.get(query).selection.sides[0].boxes
                    assert got is not None and got.tolist() == rows_of(block, boxes).tolist()
                    seen += 1
        assert seen
        kept = sorted(live)
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        assert pond._core.register.on_stream(1).tolist() == kept
