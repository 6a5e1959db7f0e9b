"""Types of expressions are asked of DuckDB once, and errors do not depend on what has been asked before."""

from __future__ import annotations

import threading

import pytest

import millpond.language.inference.duck as duck
from millpond.language import bind_query, parse
from millpond.language.inference.duck import Refused, TypedRelation, describe, typed_relation
from millpond.support.errors import StatementError
from millpond.types import Column

KINDS = (
    "BOOLEAN", "TINYINT", "HUGEINT", "UBIGINT", "DECIMAL(10,2)", "VARCHAR", "BLOB", "DATE", "TIME WITH TIME ZONE",
    "TIMESTAMP_NS", "INTERVAL", "UUID", "JSON", "ENUM('a', 'it''s')", "INTEGER[]", "ENUM('b', 'a')[]", "INTEGER[3]",
    'STRUCT(a INTEGER, "the b" VARCHAR)', "MAP(VARCHAR, INTEGER)", "BIT",
)  # fmt: skip


@pytest.fixture
def questions(monkeypatch):
    """What DuckDB was asked."""
    asked: list[list[str]] = []
    original = TypedRelation._ask

    def ask(self, expressions):
        asked.append(list(expressions))
        return original(self, expressions)

    monkeypatch.setattr(TypedRelation, "_ask", ask)
    return asked


def bound(text: str, catalog):
    (statement,) = parse(text)
    return bind_query(statement.select, catalog)


def test_queries_that_differ_in_constants_ask_one_question(catalog, questions):
    """The speed of binding hangs on this: a question costs as much as all the rest."""
    text = "SELECT sensor, count(*), avg(mph) FROM reading [RANGE TUMBLING 9 s] WHERE n > {} AND mph < 3 GROUP BY 1"
    first = bound(text.format(71000), catalog)
    questions.clear()
    for number in range(71001, 71006):
        query = bound(text.format(number), catalog)
        assert (query.select, query.keys, query.aggregates) == (first.select, first.keys, first.aggregates)
    assert questions == [[f'("n" > {number}) AND ("mph" < 3)'] for number in range(71001, 71006)]


def test_the_same_error_again_and_after_others(catalog):
    text = "SELECT sensor, avg(mph) FROM reading [RANGE TUMBLING 1 s] WHERE n > {} AND upper(n + tags) = '' GROUP BY 1"
    errors = set()
    for number in (5, 5, 6):
        with pytest.raises(StatementError) as info:
            bound(text.format(number), catalog)
        errors.add((info.value.message, info.value.start, info.value.end))
    (found,) = errors
    assert text.format(5)[found[1] : found[2]] == "n + tags"


@pytest.mark.parametrize("kind", KINDS)
def test_types_are_written_as_declared(kind):
    """Through a subquery at first, through a table when it is asked often: the same types as DESCRIBE gives."""
    relation = TypedRelation((Column('the "c"', kind), Column("b", "INTEGER")))
    shown = describe(f"SELECT CAST(NULL AS {kind}), CAST(NULL AS {kind}[])")
    for number in range(5):
        types = relation.types(['"the ""c"""', f'["the ""c""", CASE WHEN b > {number} THEN "the ""c""" END]', "NULL"])
        assert types == [shown[0].type, shown[1].type, '"NULL"']
    relation.forget()
    assert relation.types(['"the ""c"""', "b + 77"]) == [shown[0].type, "INTEGER"]


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(duck, "_EXPRESSIONS", 5)
    relation = TypedRelation((Column("a", "INTEGER"),))
    for number in range(20):
        assert relation.types([f"a + {number}", f"a > {number}", "a"]) == ["INTEGER", "BOOLEAN", "INTEGER"]
        assert len(relation._known) <= 5
    long = f"a = {'0' * 3000}1"
    assert relation.types([long]) == ["BOOLEAN"] and long not in relation._known
    relation.forget()


def test_relations_beyond_the_limit_lose_their_tables(monkeypatch):
    monkeypatch.setattr(duck, "_RELATIONS", 3)
    kept = [typed_relation([Column(f"only_here_{n}", "INTEGER")]) for n in range(1)]
    for number in range(4):
        kept[0].types([f"only_here_0 + {number}"])
    assert kept[0]._table
    for number in range(1, 5):
        typed_relation([Column(f"only_here_{number}", "INTEGER")])
    assert not kept[0]._table and kept[0].types(["only_here_0 * 2"]) == ["INTEGER"]
    assert typed_relation([Column("only_here_4", "INTEGER")]) is typed_relation([Column("only_here_4", "INTEGER")])


def test_a_refusal_says_what_describe_says():
    relation = TypedRelation((Column("a", "INTEGER"), Column("t", "VARCHAR")))
    for sql in ("sin(t)", "a + [1]", "missing", "max(sum(a))", "a +"):
        with pytest.raises(Refused) as one:
            relation.types(["a", sql])
        with pytest.raises(Refused) as other:
            describe(f"SELECT a AS x0, {sql} AS x1 FROM (SELECT NULL::INTEGER AS a, NULL::VARCHAR AS t) AS t")
        assert (one.value.reason, one.value.names) == (other.value.reason, other.value.names)


def test_threads_share_a_relation(monkeypatch):
    monkeypatch.setattr(duck, "_EXPRESSIONS", 8)
    relation, wrong = TypedRelation((Column("a", "INTEGER"),)), []

    def ask(start: int) -> None:
        for number in range(start, start + 60):
            if relation.types([f"a + {number % 12}", f"a = {number % 12}"]) != ["INTEGER", "BOOLEAN"]:
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    relation.forget()
