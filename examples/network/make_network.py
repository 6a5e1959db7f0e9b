"""Makes the two small files of this folder from the logs that its README names: `python make_network.py <folder>`.

Three minutes of both logs, in the order in which they were written; of DNS the answered lookups of IPv4 addresses.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb

HERE = Path(__file__).parent
SPAN = "ts >= TIMESTAMPTZ '2018-03-24 17:20:00Z' AND ts < TIMESTAMPTZ '2018-03-24 17:23:00Z'"
WANTED = {
    "dns": """SELECT ts::TIMESTAMP AS ts, "id.orig_h" AS client, query, answers FROM log
              WHERE qtype_name = 'A' AND answers IS NOT NULL""",
    "ssl": """SELECT ts::TIMESTAMP AS ts, "id.orig_h" AS client, "id.resp_h" AS server, server_name, version FROM log
              WHERE true""",
}


def main(folder: Path) -> None:
    """Write dns.parquet and tls.parquet beside this script."""
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    for name, select in WANTED.items():
        log = f"(SELECT *, row_number() OVER () AS written FROM '{folder / name}.parquet')"
        target = HERE / f"{name.replace('ssl', 'tls')}.parquet"
        sql = f"{select.replace('FROM log', f'FROM {log}')} AND {SPAN} ORDER BY written"
        db.execute(f"COPY ({sql}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
