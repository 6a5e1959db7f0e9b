"""Shapes of CQL queries over `{0}` and `{1}`: windowed streams for Millpond, tables for the oracle."""

from __future__ import annotations

#: Over one stream s(a INTEGER, b INTEGER).
ONE = (
    "SELECT {r}(a, b) FROM {0} x",
    "SELECT {r}(b + 1 AS c) FROM {0} x WHERE a > 1",
    "SELECT {r}(count(*) AS n, sum(b) AS total) FROM {0} x",
    "SELECT {r}(a, count(*) AS n, max(b) AS m) FROM {0} x WHERE b < 3 GROUP BY a",
    "SELECT {r}(a, min(b) AS m) FROM {0} x GROUP BY a HAVING count(*) > 1",
    "SELECT DISTINCT {r}(a) FROM {0} x",
    "WITH g AS (SELECT a, count(*) AS n FROM {0} x GROUP BY a) SELECT {r}(*) FROM g WHERE n = (SELECT max(n) FROM g)",
    "SELECT {r}(b) FROM (SELECT a, b FROM {0} x ORDER BY b DESC, a LIMIT 2) q",
    "SELECT {r}(x.b) FROM {0} x WHERE x.b = (SELECT max(y.b) FROM {0} y WHERE y.a = x.a)",
    "SELECT {r}(t.name, x.b) FROM t LEFT JOIN {0} x ON t.a = x.a",
    "SELECT {r}(*) FROM (PIVOT (SELECT a, b FROM {0} x) ON a IN (1, 2) USING sum(b), count(*) AS n) q",
    "SELECT {r}(*) FROM (SELECT a, b FROM {0} x) UNPIVOT (v FOR n IN (a, b))",
)

#: Over two streams s and u(a INTEGER, b INTEGER).
TWO = (
    "SELECT {r}(x.a, x.b, y.b AS d) FROM {0} x, {1} y WHERE x.a = y.a AND y.b > 0",
    "SELECT {r}(x.a) FROM {0} x JOIN {1} y ON x.a = y.a AND x.b < y.b",
    "SELECT {r}(x.a, y.b AS d) FROM {0} x LEFT JOIN {1} y ON x.a = y.a",
    "SELECT {r}(*) FROM (SELECT a FROM {0} x UNION ALL SELECT a FROM {1} y) q",
    "SELECT {r}(*) FROM (SELECT a FROM {0} x UNION SELECT a FROM {1} y) q",
    "SELECT {r}(*) FROM (SELECT a FROM {0} x EXCEPT ALL SELECT a FROM {1} y) q",
    "SELECT {r}(*) FROM (SELECT a FROM {0} x EXCEPT SELECT a FROM {1} y) q",
    "SELECT {r}(*) FROM (SELECT a FROM {0} x INTERSECT ALL SELECT a FROM {1} y) q",
    "SELECT {r}(a, b) FROM {0} x WHERE a IN (SELECT a FROM {1} y)",
    "SELECT {r}(a, b) FROM {0} x WHERE (a, b) IN (SELECT a, b FROM {1} y)",
    "SELECT {r}(a, b) FROM {0} x WHERE NOT EXISTS (SELECT 1 FROM {1} y WHERE y.a = x.a)",
    "SELECT {r}(a, (SELECT count(*) FROM {1} y WHERE y.a = x.a) AS n) FROM {0} x",
    "SELECT {r}(x.a, count(*) AS n) FROM {0} x, {1} y, t WHERE x.a = y.a AND t.a = x.a GROUP BY x.a",
)

#: Over these, where windows stand deeper than in FROM of the outermost SELECT, or beside what has no window.
NESTED = (
    "SELECT {r}(*) FROM (PIVOT (SELECT x.a, y.b FROM {0} x JOIN {1} y ON x.a = y.a) ON a IN (1, 2) USING sum(b)) q",
    "WITH w AS (SELECT a, b FROM {0} x) SELECT {r}(*) FROM (UNPIVOT w ON a, b INTO NAME n VALUE v) q",
    "WITH w AS (PIVOT (SELECT a, b FROM {0} x) ON a IN (1, 2) USING sum(b)) SELECT {r}(*) FROM w",
    "WITH w AS MATERIALIZED (SELECT a, b FROM {0} x) SELECT {r}(*) FROM w JOIN w w2 USING (a)",
    "WITH RECURSIVE w(n) AS (SELECT min(a) FROM {0} x UNION SELECT y.b FROM w, {1} y WHERE y.a = w.n)"
    " SELECT {r}(*) FROM w",
    "SELECT {r}(x.a, l.m) FROM {0} x, LATERAL (SELECT max(y.b) AS m FROM {1} y WHERE y.a = x.a) l",
    "SELECT {r}(v.n, x.b) FROM (VALUES (1), (2)) v(n) LEFT JOIN {0} x ON x.a = v.n",
    "SELECT {r}(v.n, (SELECT count(*) FROM {0} x WHERE x.a = v.n) AS c) FROM (VALUES (1), (2)) v(n)",
    "SELECT {r}((SELECT max(b) FROM {0} x) + (SELECT count(*) FROM {1} y) AS m)",
    "SELECT {r}(t.name, t.a IN (SELECT a FROM {0} x) AS there) FROM t",
    "SELECT {r}(t.name) FROM t WHERE t.a > ALL (SELECT a FROM {0} x)",
    "SELECT {r}(t.name) FROM t WHERE t.a IN (SELECT a FROM {0} x UNION SELECT b FROM {1} y)",
    "SELECT {r}(t.name, count(*) FILTER (WHERE t.a IN (SELECT a FROM {0} x)) AS n) FROM t GROUP BY t.name",
    "SELECT {r}(name) FROM t GROUP BY name HAVING max(a) < (SELECT max(a) FROM {0} x)",
    "SELECT {r}(a, b) FROM {0} x QUALIFY row_number() OVER (PARTITION BY a ORDER BY b DESC) = 1",
    "SELECT {r}(a, b) FROM (SELECT DISTINCT ON (a) a, b FROM {0} x ORDER BY a, b) q",
    "SELECT {r}(a, b, count(*) AS n) FROM {0} x GROUP BY CUBE (a, b)",
    "SELECT {r}(*) FROM ((SELECT a FROM {0} x) UNION BY NAME (SELECT b, a FROM {1} y)) q",
    "SELECT {r}(*) FROM (SELECT a FROM t EXCEPT ALL SELECT a FROM {0} x) q",
    "SELECT {r}(u.u) FROM {0} x, unnest([x.a, x.b]) u(u)",
    "SELECT {r}(x.b, g.i) FROM {0} x, generate_series(1, x.a) g(i)",
    "SELECT {r}(q.n) FROM (SELECT count(*) AS n FROM {0} x) q, (SELECT sum(b) AS s FROM {1} y) r WHERE q.n > 0",
)

#: Joins of one or two of these that follow from intervals of validity: {2} is another window over s.
JOINED = (
    "SELECT {r}(x.a, x.b, y.a AS c, y.b AS d) FROM {0} x, {1} y WHERE x.a = y.a",
    "SELECT {r}(x.b + y.b AS total) FROM {0} x JOIN {1} y ON x.a = y.a WHERE x.b > 0 OR y.b > 1",
    "SELECT {r}(x.a AS l, y.a AS r) FROM {0} x JOIN {1} y ON x.b < y.b",
    "SELECT {r}(x.a AS l, y.a AS r) FROM {0} x CROSS JOIN {1} y",
    "SELECT {r}(x.b, y.b AS d) FROM {0} x JOIN {1} y ON x.a + 1 = y.a AND y.b = x.b",
    "SELECT {r}(x.b, y.b AS d) FROM {0} x JOIN {0} y ON x.a = y.a",
    "SELECT {r}(x.b, y.b AS d) FROM {0} x JOIN {2} y ON x.a = y.a",
    "SELECT {r}(x.a, y.b AS d, t.name) FROM {0} x, {1} y, t WHERE x.a = y.a AND t.a = y.a",
    "SELECT {r}(x.a, y.b AS d, z.b AS e) FROM {0} x, {1} y, {2} z WHERE x.a = y.a AND z.b = y.b AND x.b <= z.b",
    "SELECT {r}(x.a) FROM {0} x, {1} y, {2} z WHERE x.a = y.a AND x.a = z.a",
    "SELECT {r}(x.a, t.name) FROM {0} x JOIN t ON t.a = x.a",
    "SELECT {r}(x.a, x.b, t.name) FROM {0} x LEFT JOIN t ON t.a = x.a AND x.b > 1",
    "SELECT {r}(t.name, x.b) FROM t LEFT JOIN {0} x ON t.a = x.a WHERE x.b IS NULL OR x.b < 3",
    "SELECT {r}(t.name, x.b) FROM {0} x RIGHT JOIN t ON t.a = x.a",
    "SELECT {r}(x.a, x.b, y.a AS c, y.b AS d) FROM {0} x LEFT JOIN {1} y ON x.a = y.a AND x.b < y.b",
    "SELECT {r}(x.b, y.b AS d) FROM {0} x RIGHT JOIN {1} y ON x.a = y.a WHERE x.b IS NULL",
    "SELECT {r}(x.b, y.b AS d) FROM {0} x FULL JOIN {1} y ON x.a = y.a",
    "SELECT {r}(x.b, y.b AS d) FROM {0} x FULL OUTER JOIN {1} y ON x.b < y.a",
    "SELECT {r}(a, x.b, y.b AS d) FROM {0} x FULL JOIN {1} y USING (a) WHERE a IS NULL OR a > 0",
    "SELECT {r}(a, y.b AS d, z.b AS e) FROM {0} x JOIN {1} y USING (a) JOIN {2} z USING (a)",
    "SELECT {r}(x.a, x.b) FROM {0} x SEMI JOIN {1} y ON x.a = y.a",
    "SELECT {r}(x.b) FROM {0} x ANTI JOIN {1} y ON x.a = y.a AND x.b <= y.b WHERE x.a > 0",
    "SELECT {r}(x.b) FROM {0} x ANTI JOIN t ON x.a = t.a",
    "SELECT {r}(a, x.b) FROM {0} x WHERE b > 0 AND EXISTS (SELECT * FROM {1} y WHERE a = x.b AND b <= 1)",
    "SELECT {r}(a, b) FROM {0} x WHERE (a, b) IN (SELECT DISTINCT a, b FROM {1} y WHERE y.b < 2)",
    "SELECT {r}(b) FROM {0} x WHERE NOT EXISTS (SELECT 1 FROM {1} y WHERE y.a = x.a)",
)

#: Aggregates over such joins that follow from the joined rows that enter and leave.
GROUPED = (
    "SELECT {r}(x.a, count(*) AS n, sum(y.b) AS t, avg(x.b * 0.5::DOUBLE) AS m) FROM {0} x JOIN {1} y ON x.a = y.a"
    " GROUP BY x.a",
    "SELECT {r}(count(*) AS n, sum(y.b) + 1 AS t) FROM {0} x, {1} y WHERE x.a = y.a",
    "SELECT {r}(y.a + 1 AS c, count(y.b) FILTER (WHERE x.b > 0) AS n, sum(x.b::DECIMAL(9, 2)) AS z) FROM {0} x"
    " LEFT JOIN {1} y ON x.a = y.a GROUP BY y.a + 1 HAVING count(*) > 1",
    "SELECT {r}(x.a, x.b, count(*) AS n) FROM {0} x FULL JOIN {1} y USING (a) GROUP BY ALL",
    "SELECT {r}(t.name, sum(y.b) AS t) FROM {0} x JOIN {1} y ON x.a = y.a JOIN t ON t.a = x.a GROUP BY 1",
)


def millpond(shape: str, operator: str, *windows: str) -> str:
    """The text for Millpond; operator 'ISTREAM', …, or '' for the relation itself."""
    items = [f"{name} {window}" for name, window in zip("sus", windows, strict=False)]
    text = shape.replace("{r}(", "{r}(" if operator else "(", 1)
    if not operator:
        start = text.index(
            "(", text.index("SELECT DISTINCT (") if "SELECT DISTINCT (" in text else text.rindex("SELECT (")
        )
        text = _without_parenthesis(text, start)
    return text.format(*items, r=operator)


def naive(shape: str) -> str:
    """The text for the oracle: the windows are tables w0 and w1, and there is no operator."""
    start = shape.index("{r}(") + 3
    return _without_parenthesis(shape.replace("{r}", "   "), start).format("w0", "w1", "w2")


def _without_parenthesis(text: str, start: int) -> str:
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return f"{text[:start]} {text[start + 1 : at]} {text[at + 1 :]}"
    raise ValueError(text)
