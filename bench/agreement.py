"""Whether two systems gave the same answers: counts exactly, sums to 1e-9 relative, over windows that both closed."""

from __future__ import annotations

from pathlib import Path

#: How far two floating sums of the same rows may differ, relative to the larger.
TOLERANCE = 1e-9


def differences(expected: Path, given: Path, until: int | None = None, memory: str = "4GB") -> tuple[int, int, str]:
    """Compare two folders of Parquet answers with columns e (window end), g, c, s.

    A system reports a window whole when it closes, so both have closed every window up to the smaller of their last
    window ends; what lies behind is left out.
    Returns: the number of answers compared, the number that differ, and an example of a difference.
    """
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = 'UTC'; SET memory_limit = '{memory}'")
    for name, folder in (("expected", expected), ("given", given)):
        if not any(folder.glob("*.parquet")):
            return 0, 1, f"{folder} holds no answers"
        connection.execute(
            f"CREATE VIEW {name} AS SELECT e::TIMESTAMP AS e, g::BIGINT AS g, c::BIGINT AS c, s::DOUBLE AS s "
            f"FROM read_parquet('{folder}/*.parquet')"
        )
    ends = connection.sql("SELECT (SELECT max(e) FROM expected), (SELECT max(e) FROM given)").fetchall()[0]
    if until is None and None in ends:
        return 0, 1, f"{expected if ends[0] is None else given} holds no closed window: more rows are needed"
    bound = min(ends) if until is None else connection.sql(f"SELECT make_timestamp({until})").fetchall()[0][0]
    connection.execute(
        f"""CREATE TEMP TABLE compared AS
        SELECT coalesce(x.e, y.e) AS e, coalesce(x.g, y.g) AS g, x.c AS c0, y.c AS c1, x.s AS s0, y.s AS s1,
            (x.c IS NOT DISTINCT FROM y.c AND (x.s IS NOT DISTINCT FROM y.s
              OR abs(x.s - y.s) <= {TOLERANCE} * greatest(abs(x.s), abs(y.s)))) IS TRUE AS same
        FROM (SELECT * FROM expected WHERE e <= TIMESTAMP '{bound}') x
        FULL JOIN (SELECT * FROM given WHERE e <= TIMESTAMP '{bound}') y
        ON x.e = y.e AND coalesce(x.g, -1) = coalesce(y.g, -1)"""
    )
    total, wrong = connection.sql("SELECT count(*), count(*) FILTER (WHERE NOT same) FROM compared").fetchall()[0]
    example = connection.sql(
        "SELECT e, g, c0, c1, s0, s1 FROM compared WHERE NOT same ORDER BY e, g LIMIT 1"
    ).fetchall()
    if not example:
        return int(total), int(wrong), ""
    e, g, c0, c1, s0, s1 = example[0]
    return int(total), int(wrong), f"window to {e}, group {g}: expected count {c0}, sum {s0}; got {c1}, {s1}"
