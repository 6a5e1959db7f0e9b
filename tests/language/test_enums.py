"""Comparisons of ENUMs with texts follow the order of the declaration."""

from __future__ import annotations

import pytest

from millpond.language import bind_query, bind_select, parse
from millpond.language.inference.enum_texts import values_of
from millpond.support.errors import StatementError
from millpond.types import FunctionDefinition, QueryDefinition, StreamDefinition

LEVEL = "ENUM('low', 'mid', 'high')"
W = "[RANGE TUMBLING 1 MINUTE]"


class Catalog:
    def __init__(self) -> None:
        declared = f"CREATE STREAM s (ts TIMESTAMP, e {LEVEL}, t TEXT, es {LEVEL}[]) WITH (lateness = '5s')"
        self.definitions: dict[str, StreamDefinition | QueryDefinition] = {"s": parse(declared)[0].definition}
        (query,) = parse(f"CREATE QUERY q AS SELECT e, max(e) AS top, count(*) AS n FROM s {W} GROUP BY e")
        bound = bind_query(query.select, self)
        self.definitions["q"] = QueryDefinition("q", bound, query.options)

    def lookup(self, name: str) -> StreamDefinition | QueryDefinition | None:
        return self.definitions.get(name.lower())

    def names(self) -> list[str]:
        return list(self.definitions)

    def by_time(self, stream: StreamDefinition, column: str) -> None:
        return None

    def reductions(self) -> list[str]:
        return []

    def functions(self) -> dict[str, FunctionDefinition]:
        return {}

    def missing(self, name: str) -> str:
        return ""

    def window_kinds(self) -> dict[str, tuple[str, int]]:
        return {}


CATALOG = Catalog()


def bind(text: str):
    (statement,) = parse(text)
    return bind_select(statement.select, CATALOG)


def cast(value: str) -> str:
    return f"CAST('{value}' AS {LEVEL})"


@pytest.mark.parametrize(
    ("written", "rendered"),
    [
        ("e > 'low'", f'"e" > {cast("low")}'),
        ("'low' <= (e)", f'{cast("low")} <= ("e")'),
        ("s.e BETWEEN 'low' AND 'mid'", f'"e" BETWEEN {cast("low")} AND {cast("mid")}'),
        ("e = 'no such value'", "\"e\" = 'no such value'"),  # texts that are equal or not: no order is needed
        ("e::TEXT > 'no such value'", "CAST(\"e\" AS VARCHAR) > 'no such value'"),
        ("t > 'low'", "\"t\" > 'low'"),
        ("es[1] > 'low'", f'"es"[1] > {cast("low")}'),
        ("es[1:2] > ['low']", "\"es\"[1:2] > ['low']"),
    ],
)
def test_conditions_on_rows(written, rendered):
    assert str(bind(f"SELECT t FROM s WHERE {written}").where) == rendered


@pytest.mark.parametrize(
    ("written", "rendered"),
    [
        ("e > 'low'", f'"k0" > {cast("low")}'),
        ("max(e) > 'low'", f'"a0" > {cast("low")}'),
        ("x > 'low'", f'("k0") > {cast("low")}'),
        ("arg_max(e, ts) FILTER (WHERE e < 'high') < 'high'", f'"a0" < {cast("high")}'),
        ("median(e) BETWEEN 'low' AND 'mid'", f'"a0" BETWEEN {cast("low")} AND {cast("mid")}'),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY e) > 'low'", f'"a0" > {cast("low")}'),
        ("max(t) > 'low'", "\"a0\" > 'low'"),
        ("count(e) > 1", '"a0" > 1'),
    ],
)
def test_conditions_on_groups(written, rendered):
    query = bind(f"SELECT e AS x FROM s {W} GROUP BY e HAVING {written}")
    assert str(query.having) == rendered
    if "FILTER" in written:
        assert str(query.aggregates[0].filter) == f'"e" < {cast("high")}'


@pytest.mark.parametrize("clause", ["WHERE e > «'hihg'» GROUP BY e", "GROUP BY e HAVING max(e) < «'hihg'»"])
def test_a_text_that_is_no_value_has_no_place(clause):
    marked = f"SELECT count(*) FROM s {W} {clause}"
    text = marked.replace("«", "").replace("»", "")
    with pytest.raises(StatementError) as info:
        bind(text)
    error = info.value
    assert (error.start, text[error.start : error.end]) == (marked.index("«"), "'hihg'")
    assert "'hihg' is not a value of ENUM" in error.message
    assert error.expected == "one of low, mid, high" and error.nearest == "high"


def test_answers_are_compared_and_ordered_as_enums():
    query = bind("SELECT e FROM q WHERE top > 'low' AND 'high' >= e ORDER BY top")
    assert f'"top" > {cast("low")}' in query.sql and f"{cast('high')} >= " in query.sql
    assert f'CAST("e" AS {LEVEL}) AS "e", CAST("top" AS {LEVEL}) AS "top"' in query.sql
    assert query.columns[0].type == LEVEL
    assert "CAST" not in bind("SELECT n FROM late(s) AS l, (SELECT 1 AS n) AS o WHERE l.t > 'low'").sql.replace(
        f'CAST("e" AS {LEVEL})', ""
    ).replace(f'CAST("es" AS {LEVEL}[])', "")


def test_values_with_quotes():
    assert values_of("ENUM('a', 'it''s', ')', ', ')") == ["a", "it's", ")", ", "]
