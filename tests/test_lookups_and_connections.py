"""DNS lookups with the TLS connections after them, of a real network and out of order: as batch SQL joins them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow.parquet as pq

import millpond
from tests.pages import ROOT

NETWORK = ROOT / "examples" / "network"
MEETS = "t.client = d.client AND list_contains(string_split(d.answers, ','), t.server)"
BAND = f"{MEETS} AND d.ts <= t.ts AND d.ts >= t.ts - INTERVAL 1 MINUTE"

#: A query, what is asked of its answers, and DuckDB's account of the same.
CHECKS = {
    f"SELECT PAIRS(t.client, t.server, query, d.ts AS at_) FROM dns [RANGE 1 MINUTE] d JOIN tls [NOW] t ON {MEETS}": (
        "at, client, server, query, at_",
        f"SELECT t.ts, t.client, t.server, query, d.ts FROM dns d JOIN tls t ON {BAND}",
    ),
    f"SELECT PAIRS(client, server, version) FROM tls [NOW] t ANTI JOIN dns [RANGE 1 MINUTE] d ON {MEETS}": (
        "at, client, server, version",
        f"SELECT ts, client, server, version FROM tls t ANTI JOIN dns d ON {BAND}",
    ),
    "SELECT PAIRS(t.client, server, query) FROM tls [NOW] t ASOF LEFT JOIN dns [RANGE 1 MINUTE] d"
    f" ON {MEETS} AND t.ts >= d.ts": (
        "at, client, server, query IS NULL",
        f"""SELECT t.ts, t.client, t.server, NOT EXISTS (FROM dns d WHERE {BAND}) FROM tls t""",
    ),
    "SELECT role, version, count(*) AS n FROM tls [RANGE 1 MINUTE SLIDE 30 SECONDS] t JOIN host USING (server)"
    " GROUP BY role, version": (
        "window_end, role, version, n",
        """SELECT e, role, version, count(*) FROM (SELECT *, unnest(range(
             time_bucket(INTERVAL '30 s', ts) + INTERVAL '30 s', time_bucket(INTERVAL '30 s', ts) + INTERVAL '61 s',
             INTERVAL '30 s')) AS e FROM tls) t JOIN host ON host.server = t.server GROUP BY ALL""",
    ),
}


def test_joins_of_a_network_log_are_those_of_batch_sql(tmp_path: Path) -> None:
    db = duckdb.connect()
    logs = {name: pq.read_table(NETWORK / f"{name}.parquet") for name in ("dns", "tls")}
    for name, table in logs.items():
        db.register(f"{name}_", table)
        db.execute(f"CREATE TABLE {name} AS FROM {name}_")
    db.execute(
        "CREATE TABLE host AS SELECT server, 'busy' AS role FROM tls GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 5"
    )
    db.execute(f"COPY host TO '{tmp_path}/host.parquet' (FORMAT parquet)")
    with millpond.open(tmp_path / "p", executor="inline", shards=2) as pond:
        pond.sql(f"""
            CREATE STREAM dns (ts TIMESTAMP, client TEXT, query TEXT, answers TEXT)
              WITH (event_time='ts', lateness='5 s');
            CREATE STREAM tls (ts TIMESTAMP, client TEXT, server TEXT, server_name TEXT, version TEXT)
              WITH (event_time='ts', lateness='30 s');
            CREATE TABLE host (server TEXT, role TEXT) WITH (path='{tmp_path}/host.parquet')""")
        for number, query in enumerate(CHECKS):
            pond.sql(f"CREATE QUERY q{number} AS {query}")
        parts = 3
        for part in range(parts):  # rows that are more than thirty seconds late revise
            for name, table in logs.items():
                size = -(-table.num_rows // parts)
                pond.ingest(name, table.slice(part * size, size))
            pond.drain()
        pond.drain(final=True)
        for number, (shown, wanted) in enumerate(CHECKS.values()):
            found = pond.sql(f"SELECT {shown} FROM q{number}").to_arrow()
            db.register("found", found)
            count, expected = (db.sql(f"SELECT count(*) FROM ({t})").fetchall() for t in ("FROM found", wanted))
            assert count == expected and count[0][0] > 0
            differ = (
                f"(SELECT * FROM found EXCEPT ALL ({wanted})) UNION ALL (({wanted}) EXCEPT ALL SELECT * FROM found)"
            )
            assert db.sql(f"SELECT * FROM ({differ}) LIMIT 3").fetchall() == [], number
