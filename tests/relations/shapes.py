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


def millpond(shape: str, operator: str, *windows: str) -> str:
    """The text for Millpond; operator 'ISTREAM', …, or '' for the relation itself."""
    items = [f"{name} {window}" for name, window in zip("su", windows, strict=False)]
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
    return _without_parenthesis(shape.replace("{r}", "   "), start).format("w0", "w1")


def _without_parenthesis(text: str, start: int) -> str:
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return f"{text[:start]} {text[start + 1 : at]} {text[at + 1 :]}"
    raise ValueError(text)
