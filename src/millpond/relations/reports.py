"""The rows that a relational query reports, as they are stored, and the revision numbers that instants have."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa

from millpond.support.sql import quote
from millpond.synopses import query_table
from millpond.types import STATUS, Relational

#: Answers of so many rows and more are put together from their columns.
DIRECT = 1_000


def shown(db: duckdb.DuckDBPyConnection, query: Relational, found: pa.Table) -> pa.Table:
    """Answers as they are stored: at, the select list, change (of relations), revision, op.

    Arguments:
        found: `_at`, `_sign`, c0, …, `_n`, `_revision`; a negative `_n` takes rows back. Its order is kept. With
            `_status`, the rows have a status, too.
    """
    outputs = [o.sql for o in query.select]
    if not query.makes_stream:
        outputs.append("CASE WHEN _sign > 0 THEN '+' ELSE '-' END AS change")
    status = f" _status AS {STATUS}," if "_status" in found.column_names else ""
    sql = (
        f'SELECT make_timestamp(_at) AS "at", {", ".join(outputs)}, _revision AS revision,{status}'
        " CASE WHEN _n > 0 THEN '+' ELSE '-' END AS op"
    )
    counts = found["_n"].to_numpy()
    if (counts == 1).all():
        return _once(db, query, found, f"{sql} FROM found")
    if (np.abs(counts) != 1).any():
        return query_table(db, f"{sql} FROM (SELECT *, unnest(range(abs(_n))) AS _copy FROM found)", found=found)
    return query_table(db, f"{sql} FROM found", found=found)


def _once(db: duckdb.DuckDBPyConnection, query: Relational, found: pa.Table, sql: str) -> pa.Table:
    """As `shown` where every row comes once; values that are stored as they are do not go through DuckDB."""
    if found.num_rows < DIRECT:
        return query_table(db, sql, found=found)
    model = query_table(db, sql, found=found.slice(0, 0))
    columns = [found[f"c{n}"] for n in range(len(query.select))]
    if "_status" in found.column_names or [c.type for c in columns] != model.schema.types[1 : 1 + len(columns)]:
        return query_table(db, sql, found=found)
    parts = [found["_at"].cast(model.schema.types[0]), *columns]
    if not query.makes_stream:
        signs = pa.array(["-", "+"])
        parts.append(signs.take(pa.array((found["_sign"].to_numpy() > 0).astype(np.int64))))
    parts += [found["_revision"], pa.repeat("+", found.num_rows)]
    return pa.table(parts, schema=model.schema)


def numbered(
    db: duckdb.DuckDBPyConnection, found: pa.Table, given: pa.Table | None, status: str | None, unknown: int
) -> pa.Table:
    """Rows as `shown` wants them, each with the number behind the one that was given for its instant.

    Arguments:
        found: `_at`, …; with `_status`, if that is not the same for all. given: columns end, revision.
        status: of all rows; None: none, or what they say. unknown: the number where none was given.
    """
    if given is None:
        given = pa.table({"end": pa.array([], pa.int64()), "revision": pa.array([], pa.int64())})
    own = "" if status is None else f", '{status}' AS _status"
    sql = (
        f"SELECT c.*{own}, coalesce(g.revision + 1, {unknown})::BIGINT AS _revision FROM found c LEFT JOIN"
        ' (SELECT "end", max(revision) AS revision FROM given GROUP BY "end") g ON g."end" = c._at ORDER BY ALL'
    )
    return query_table(db, sql, found=found, given=given)


def numbers_of(reported: pa.Table) -> pa.Table:
    """The numbers of instants as they are remembered, from rows of `shown`: columns end, revision."""
    table = pa.table({"end": reported["at"].cast(pa.int64()), "revision": reported["revision"]})
    return table.group_by(["end", "revision"], use_threads=False).aggregate([])


def net_changes(
    db: duckdb.DuckDBPyConnection, query: Relational, reported: pa.Table, told: pa.Table
) -> pa.Table | None:
    """What is to be reported where other rows hold than were reported: what is missing as '+', what is too much as '-'.

    Arguments:
        reported, told: rows of `shown`, of some instants; one of them may be a table without columns.
    Returns: rows like these, each with the number behind the last one of its instant; None: both say the same.
    """
    model = told if told.num_rows else reported
    own = {"revision", "op", STATUS} - {output.name for output in query.select}
    names = [n for n in model.column_names if n not in own]
    listed = ", ".join(map(quote, names))
    sources = {"told": told, "reported": reported}
    counted = [
        f"SELECT {listed}, CASE op WHEN '+' THEN {sign} ELSE {-sign} END AS __n FROM {name}"
        for name, sign in (("told", 1), ("reported", -1))
        if sources[name].num_rows
    ]
    changes = (
        f"SELECT {listed}, sum(__n)::BIGINT AS __n FROM ({' UNION ALL '.join(counted)})"
        f" GROUP BY {listed} HAVING sum(__n) <> 0"
    )
    given = 'SELECT "at" AS __at, max(revision) AS __last FROM reported GROUP BY "at"'
    if not reported.num_rows:
        given = "SELECT NULL::TIMESTAMP AS __at, NULL::BIGINT AS __last LIMIT 0"
    sql = (
        f"SELECT {', '.join('__row.' + quote(n) for n in names)},"
        " coalesce(__given.__last, 0)::BIGINT + 1 AS revision,"
        " CASE WHEN __row.__n > 0 THEN '+' ELSE '-' END AS op"
        f" FROM (SELECT *, unnest(range(abs(__n))) AS __copy FROM ({changes})) __row"
        f' LEFT JOIN ({given}) __given ON __given.__at = __row."at" ORDER BY ALL'
    )
    found = query_table(db, sql, **{name: table for name, table in sources.items() if table.num_rows})
    return found if found.num_rows else None
