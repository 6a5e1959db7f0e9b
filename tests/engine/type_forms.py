"""Queries over a column of any type, each with the SQL that says by definition what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Two values of each type; of those that have an order the first is smaller.
TYPES = {
    "TINYINT": ("-1", "2"),
    "SMALLINT": ("-1", "2"),
    "INTEGER": ("1", "2"),
    "BIGINT": ("-1", "9007199254740993"),
    "HUGEINT": ("1", "1180591620717411303424"),
    "UTINYINT": ("1", "255"),
    "USMALLINT": ("1", "65535"),
    "UINTEGER": ("1", "4294967295"),
    "UBIGINT": ("1", "18446744073709551615"),
    "BOOLEAN": ("false", "true"),
    "DECIMAL(9,2)": ("1.25", "2"),
    "DECIMAL(38,2)": ("1.25", "2"),
    "FLOAT": ("1.5", "'nan'"),
    "DOUBLE": ("0.0", "'nan'"),
    "VARCHAR": ("'a'", "'b'"),
    "BLOB": ("'a'", "'\\xFF'"),
    "DATE": ("'2026-01-01'", "'9999-12-31'"),
    "TIME": ("'01:00'", "'02:00'"),
    "TIMESTAMP": ("'1969-12-31 23:59:59.999999'", "'9999-12-31'"),
    "TIMESTAMP_S": ("'2026-01-01'", "'2026-01-02'"),
    "TIMESTAMP_MS": ("'2026-01-01'", "'2026-01-02'"),
    "TIMESTAMP_NS": ("'2026-01-01'", "'2026-01-02'"),
    "TIMESTAMPTZ": ("'2026-01-01 00:00:00+00'", "'2026-01-02 00:00:00+00'"),
    "INTERVAL": ("'1 day'", "'2 days'"),
    "UUID": ("'00000000-0000-0000-0000-000000000001'", "'f0000000-0000-0000-0000-000000000002'"),
    "ENUM('b', 'a')": ("'b'", "'a'"),
    "JSON": ("'[1]'", "'{\"a\":1}'"),
    "INTEGER[]": ("[1]", "[2]"),
    "ENUM('b', 'a')[]": ("['b']", "['a']"),
    "INTEGER[2]": ("[1, 2]", "[2, 1]"),
    "STRUCT(z INTEGER)": ("{'z': 1}", "{'z': 2}"),
    "MAP(VARCHAR, INTEGER)": ("MAP {'x': 1}", "MAP {'x': 2}"),
}

#: The second of the last rows, which closes all windows before it.
LAST = 1000


@dataclass(frozen=True)
class Form:
    """A query over the streams `s` and `r` (ts, k, v), and DuckDB's SQL over tables of all their rows, with their `id`.

    `ended` stands for the rows before the last ones, behind a table's name. asks: how it is asked, and of which rows:
    'ended' or 'all'. past: whether it may be registered when the rows are there.
    """

    query: str
    sql: str
    options: str = ""
    asks: tuple[tuple[str, Literal["ended", "all"]], ...] = (("SELECT * FROM {name}", "ended"), ("{query}", "ended"))
    past: bool = True


BUCKET = "time_bucket(INTERVAL '10 seconds', ts)"
COUNTED = f"SELECT k, count(*) AS n FROM s GROUP BY {BUCKET}, k"
MET = "s.k = r.k AND abs(epoch(s.ts) - epoch(r.ts)) <= 100"

_KEPT = (("SELECT * FROM {name}", "ended"),)
_LIVE = (("SELECT * FROM {name}", "all"),)
_ROWS = (("SELECT * FROM {name}", "ended"), ("{query}", "all"))
_RELATION = (("SELECT * FROM {name}", "ended"), ("{query}", "all"), ("INVOKE {name}", "all"))
_INVOKED = (("INVOKE {name}", "all"), ("{query}", "all"))


def _windows() -> dict[str, Form]:
    count = "SELECT k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k"
    closed = (("SELECT * FROM {name} WHERE status = 'closed'", "ended"),)
    return {
        "tumbling": Form(count.replace("AS n", "AS n, sum(v) AS t"), COUNTED.replace("AS n", "AS n, sum(v) AS t")),
        "early_": Form(count, COUNTED, "early='1s'", closed),
        "flushed": Form(count, COUNTED, "flush='slow', flush_delay='1s'", _KEPT),
        "sliding": Form(
            "SELECT k, count(*) AS n FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k HAVING count(*) < 3",
            f"SELECT k, count(*) AS n FROM s, (SELECT unnest([0, 10]) AS o) GROUP BY {BUCKET} + to_seconds(o), k"
            " HAVING count(*) < 3",
        ),
        "extremes": Form(
            "SELECT v % 2 AS g, min(k) AS low, max(k) AS high, count(k) AS n FROM s [RANGE TUMBLING 10 SECONDS]"
            " GROUP BY v % 2",
            f"SELECT v % 2 AS g, min(k) AS low, max(k) AS high, count(k) AS n FROM s GROUP BY {BUCKET}, v % 2",
        ),
        "lists": Form(
            "SELECT list(k) AS l, first(k) AS f, last(k) AS z, arg_max(k, v) AS m, arg_min(v, k) AS a,"
            " count(DISTINCT k) AS d FROM s [RANGE TUMBLING 10 SECONDS]",
            "SELECT list(k ORDER BY ts, id) AS l, first(k ORDER BY ts, id) AS f, last(k ORDER BY ts, id) AS z,"
            " arg_max(k, v) AS m, arg_min(v, k ORDER BY ts, id) AS a, count(DISTINCT k) AS d"
            f" FROM s GROUP BY {BUCKET}",
        ),
        "different": Form(
            "SELECT DISTINCT k FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k, v",
            f"SELECT k FROM (SELECT DISTINCT {BUCKET}, k FROM s)",
        ),
        "landmark": Form(
            "SELECT k, count(*) AS n FROM s [RANGE ALL SLIDE 500 SECONDS] GROUP BY k",
            "SELECT k, count(*) AS n FROM s, (SELECT unnest([1, 2]) AS e) GROUP BY e, k",
        ),
        "session_": Form(
            "SELECT k, count(*) AS n, list(v) AS l FROM s [SESSION 100 SECONDS] GROUP BY k",
            "SELECT k, count(*) AS n, list(v ORDER BY ts, id) AS l FROM s GROUP BY k",
        ),
        "session_of": Form(
            "SELECT k, count(*) AS n FROM s [PARTITION BY k SESSION 100 SECONDS]",
            "SELECT k, count(*) AS n FROM s GROUP BY k",
        ),
        "last_rows": Form(
            "SELECT k, count(*) AS n, list(v) AS l FROM s [PARTITION BY k ROWS 2 SLIDE 1]",
            "SELECT k, count(*) OVER w AS n, list(v) OVER w AS l FROM s"
            " WINDOW w AS (PARTITION BY k ORDER BY ts, id ROWS 1 PRECEDING)",
            asks=_ROWS,
        ),
        "ended_by_rows": Form(
            "SELECT k, count(*) AS n FROM s [PARTITION BY k RANGE 100 SECONDS SLIDE 1 ROW]",
            "SELECT k, n FROM (SELECT DISTINCT ts, k, count(*) OVER (PARTITION BY k ORDER BY ts) AS n FROM s)",
            asks=_KEPT,
        ),
        "threes": Form(
            "SELECT k, count(*) AS n FROM s [ROWS 3 SLIDE 3] GROUP BY k",
            "SELECT k, count(*) AS n FROM (SELECT k, (row_number() OVER (ORDER BY ts, id) - 1) // 3 AS w FROM s)"
            " WHERE w < (SELECT count(*) FROM s) // 3 GROUP BY w, k",
        ),
    }


def _relations() -> dict[str, Form]:
    both = "FROM s [RANGE UNBOUNDED] s {} r [RANGE UNBOUNDED] r ON s.k = r.k"
    select = "SELECT s.k, s.v, r.v AS w"
    of_pairs = "SELECT s.k, count(*) AS n FROM {} GROUP BY {}s.k"
    near = "s [RANGE 100 SECONDS] s {} r [RANGE 100 SECONDS] r ON s.k = r.k"
    at = "time_bucket(INTERVAL '10 seconds', greatest(s.ts, r.ts)), "
    grouped = "SELECT {0}k, count(*) AS n, sum({1}v) AS t "
    extremes = "SELECT min(s.k) AS l, max(s.k) AS h FROM s{0} JOIN r{0} ON s.v = r.v"
    return {
        "rows_now": Form("SELECT ISTREAM(k, v) FROM s [NOW]", "SELECT k, v FROM s", asks=_ROWS),
        "latest": Form(
            "SELECT k, v FROM s [PARTITION BY k ROWS 1]",
            "SELECT k, v FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY ts DESC, id DESC) = 1",
            asks=_RELATION,
        ),
        "grouped": Form(
            grouped.format("", "") + "FROM s [RANGE UNBOUNDED] GROUP BY k",
            grouped.format("", "") + "FROM s GROUP BY k",
            asks=_RELATION,
        ),
        "once": Form("SELECT DISTINCT k FROM s [RANGE UNBOUNDED]", "SELECT DISTINCT k FROM s", asks=_RELATION),
        "united": Form(
            "SELECT k FROM s [RANGE UNBOUNDED] UNION SELECT k FROM r [RANGE UNBOUNDED]",
            "SELECT k FROM s UNION SELECT k FROM r",
            asks=_RELATION,
        ),
        "without": Form(
            "SELECT k FROM s [RANGE UNBOUNDED] EXCEPT ALL SELECT k FROM r [RANGE UNBOUNDED]",
            "SELECT k FROM s EXCEPT ALL SELECT k FROM r",
            asks=_RELATION,
        ),
        "joined": Form(f"{select} {both.format('JOIN')}", f"{select} FROM s JOIN r ON s.k = r.k", asks=_RELATION),
        "beside": Form(
            f"{select} {both.format('LEFT JOIN')}", f"{select} FROM s LEFT JOIN r USING (k)", asks=_RELATION
        ),
        "sums": Form(
            grouped.format("s.", "r.") + both.format("JOIN") + " GROUP BY s.k",
            grouped.format("s.", "r.") + "FROM s JOIN r ON s.k = r.k GROUP BY s.k",
            asks=_RELATION,
        ),
        "least": Form(extremes.format(" [RANGE UNBOUNDED]"), extremes.format(""), asks=_RELATION),
        "changes": Form(
            f"SELECT ISTREAM(s.k, s.v, r.v AS w) {both.format('JOIN')}",
            f"{select} FROM s JOIN r ON s.k = r.k",
            asks=_ROWS,
        ),
        "met": Form(
            f"SELECT PAIRS(s.k, s.v, r.v AS w) FROM {near.format('JOIN')}",
            f"{select} FROM s JOIN r ON {MET}",
            asks=_LIVE,
        ),
        "ordered": Form(
            f"SELECT PAIRS(s.k, r.k AS j) FROM {near.format('JOIN').replace('s.k = r.k', 's.v = r.v AND s.k < r.k')}",
            "SELECT s.k, r.k AS j FROM s JOIN r ON s.v = r.v AND s.k < r.k",
            asks=_LIVE,
        ),
        "alone": Form(
            f"SELECT PAIRS(s.k, s.v) FROM {near.format('ANTI JOIN')}",
            f"SELECT s.k, s.v FROM s ANTI JOIN r ON {MET}",
            asks=_KEPT,
        ),
        "met_windows": Form(
            of_pairs.format(f"({near.format('JOIN')}) [RANGE TUMBLING 10 SECONDS]", ""),
            of_pairs.format(f"s JOIN r ON {MET}", at),
            asks=_KEPT,
        ),
    }


def _row_queries() -> dict[str, Form]:
    whole = " BEGIN '2026-01-01' END NOW"
    selects = {
        "rows_of": "SELECT k, v FROM s WHERE v > 1",
        "rows_once": "SELECT DISTINCT k FROM s",
        "row_groups": "SELECT k, count(*) AS n, max(v) AS m FROM s GROUP BY k",
        "row_extremes": "SELECT min(k) AS l, max(k) AS h, count(DISTINCT k) AS d FROM s",
        "row_pairs": "SELECT s.k, s.v, r.v AS w FROM s JOIN r ON s.k = r.k",
        "equal_to": "SELECT k, v FROM s WHERE k = {low}",
        "one_of": "SELECT k, v FROM s WHERE k IN ({low}, {high}) AND v > 2",
        "above": "SELECT k, v FROM s WHERE k > {low}",
    }
    return {name: Form(f"{sql}{whole}", sql, asks=_INVOKED, past=False) for name, sql in selects.items()}


FORMS = {**_windows(), **_relations(), **_row_queries()}
