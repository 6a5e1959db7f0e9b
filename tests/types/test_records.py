"""Whatever is written as JSON is read back equal: every field of every class that goes through `from_json`.

The classes are found in the source, and their values made from their annotations, so that a new class and a new field
are tested as soon as they are there.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import millpond
from millpond.catalog import Catalog
from millpond.catalog.catalog_state import Store
from millpond.manifests.query_progress import OwnProgress, QueryProgress, Unread
from millpond.manifests.records import Manifest, Published
from millpond.relations import Rows
from millpond.types import (
    Aggregate,
    Call,
    ConstantInput,
    CountedArgument,
    DecimalArgument,
    Expression,
    FloatingArgument,
    Grouping,
    JoinPlan,
    Key,
    KindWindow,
    LatestRowsWindow,
    Output,
    QueryDefinition,
    RangeWindow,
    RelationWindow,
    RowWindow,
    SpanWindow,
    TumblingWindow,
    UnboundedWindow,
    Variant,
    WholeArgument,
    Window,
    WindowQuery,
    from_json,
    to_json,
    union_from_json,
)
from millpond.types.json_records import TAG, Written
from millpond.types.relation_queries import (
    EVERYWHERE,
    JOIN_KINDS,
    AnswersInput,
    Copied,
    DeadInput,
    FinalInput,
    JoinKind,
    LateInput,
    NotSalted,
    RevisionsInput,
    SaltedBy,
    TableInput,
    are_together,
)
from millpond.types.selections import ConstantEdge, Edge, NowEdge, OpenEdge, RowsEdge
from millpond.types.stream_definitions import AnswerDerivation, Derivation, RowDerivation

#: What is called with a class that is read back.
READERS = ("from_json", "read_record")

#: How deep values are filled; below it fields that may be missing are.
DEPTH = 7

_CALL = Call("udf__f", (Expression.column_of("a"), Expression("1")), Expression('"_u0" > 1', ("_u0",)))
_EXPRESSIONS = (
    Expression.column_of("a"),
    Expression("1"),
    Expression.column_of("a", "INTEGER"),
    Expression('"a" > 1', ("a",)),
    Expression('"a" > 1', ("a",), type="BOOLEAN"),
    Expression('sum("a")', ("a",), ("sum",)),
    Expression('sum("a")', ("a",), ("sum",), type="HUGEINT"),
    Expression('udf__f("a", 1) > 1', ("a",), ("udf__f",), (), _CALL),
    Expression('"a" AND udf__f("b")', ("a", "b"), ("udf__f",), (Expression("a", ("b",)), Expression("1"))),
)

_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(-(2**62), 2**62),
    float: st.floats(allow_nan=False),
    str: st.text(max_size=4),
    Expression: st.sampled_from(_EXPRESSIONS),
    JoinKind: st.sampled_from(list(JOIN_KINDS.values())),
    Edge: st.one_of([st.builds(each, st.integers()) for each in (OpenEdge, ConstantEdge, NowEdge, RowsEdge)]),
    Any: st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
}

#: The part of a record that a kind of operators owns, as everybody else sees it.
_OWN = st.builds(Unread, st.sampled_from(["windows", "pairs"]), st.fixed_dictionaries({"first": st.integers(0, 9)}))


def read_in_source() -> Iterator[type]:
    """The classes that some module passes to `from_json`, or to what reads a file with it."""
    root = Path(millpond.__file__).parent
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text())
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) in READERS]
        homes = {
            alias.name: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        own = ".".join(("millpond", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        # What a parameter names are the parts that kinds of operators own: see `tests/operators/test_own_progress.py`.
        for name in {ast.unparse(call.args[0]) for call in calls} - {"kind"}:
            yield getattr(importlib.import_module(homes.get(name, own)), name)


def parts_of(hint: Any) -> Iterator[type]:
    """The dataclasses that an annotation names."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and not issubclass(hint, Written):
        yield hint
    for argument in typing.get_args(hint):
        yield from parts_of(argument)


def all_of(kinds: list[type]) -> list[type]:
    """Some classes, and those that their fields hold."""
    for kind in kinds:
        for hint in typing.get_type_hints(kind).values():
            kinds += [k for k in dict.fromkeys(parts_of(hint)) if k not in kinds]
    return sorted(kinds, key=lambda k: (k.__module__, k.__name__))


KINDS = all_of(list(dict.fromkeys(read_in_source())))


def values(hint: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values of an annotation, filled as far as `DEPTH` allows: nothing empty, nothing missing."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is OwnProgress:
        return _OWN
    if hint is Derivation:
        return st.one_of([filled(each, depth + 1) for each in (RowDerivation, AnswerDerivation)])
    if isinstance(hint, TypeVar):
        return values(hint.__bound__, depth)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (types.UnionType, typing.Union):
        some = [a for a in arguments if a is not types.NoneType]
        missing = types.NoneType in arguments and depth >= DEPTH
        return st.none() if missing else st.one_of([values(a, depth) for a in some])
    if origin is tuple and arguments[1:] == (...,):
        if depth >= DEPTH:  # a class may hold others of itself
            return st.just(())
        return st.tuples(values(arguments[0], depth + 1))
    if origin is tuple:
        return st.tuples(*(values(a, depth + 1) for a in arguments))
    if origin is dict:
        inside = values(arguments[1], depth + 1)
        return st.dictionaries(values(arguments[0]), inside, min_size=depth < DEPTH, max_size=depth < DEPTH)
    if dataclasses.is_dataclass(hint):
        return filled(hint, depth + 1)
    raise AssertionError(f"no values for {hint}: teach this test, and `from_json` if need be")


def filled(kind: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Instances of a dataclass; not one field of the outermost has its default."""
    fields, hints = {}, typing.get_type_hints(kind)
    for each in dataclasses.fields(kind):
        found = values(hints[each.name], depth)
        if not depth and each.default is not dataclasses.MISSING:
            found = found.filter(lambda value, default=each.default: value != default)
        fields[each.name] = found
    return st.builds(kind, **fields)


def test_the_classes_are_found() -> None:
    assert {Catalog, Manifest, Published, QueryProgress, WindowQuery, QueryDefinition} <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(data=st.data())
def test_what_is_written_is_read_back(kind: type, data: st.DataObject) -> None:
    value = data.draw(filled(kind))
    text = json.dumps(to_json(value))
    assert from_json(kind, json.loads(text)) == value
    tag = {TAG} if issubclass(kind, Variant) else set()
    assert json.loads(text).keys() == {f.name for f in dataclasses.fields(kind)} | tag


@pytest.mark.parametrize("value", _EXPRESSIONS)
def test_expressions_are_read_back_with_what_they_are_made_of(value: Expression) -> None:
    read = Expression.read(json.loads(json.dumps(value.written())))
    for each in dataclasses.fields(value):
        assert getattr(read, each.name) == getattr(value, each.name)
    assert [part.columns for part in read.conjuncts] == [part.columns for part in value.conjuncts]


def test_windows_of_relations_that_said_their_kind_by_a_text_are_read() -> None:
    def read(**value: Any) -> Any:
        return union_from_json(RelationWindow, {"range": 0, "rows": 0, "partition": [], "origin": 0, **value})

    assert read(kind="range", range=7) == RangeWindow(7)
    assert read(kind="tumbling", range=7, origin=2) == TumblingWindow(7, 2)
    assert read(kind="rows", rows=3, partition=["a"]) == LatestRowsWindow(3, ("a",))
    assert read(kind="unbounded") == UnboundedWindow()


def test_windows_with_ends_that_said_their_kind_by_their_fields_are_read() -> None:
    old = {"range": 1, "slide": 1, "origin": 0, "attribute": "ts", "landmark": None}
    assert union_from_json(Window, {**old, "kind": "mine@1"}) == KindWindow("mine@1")
    assert union_from_json(RowWindow, {"rows": None, "range": 7, "slide": 2, "partition": []}) == SpanWindow(7, 2)


def test_inputs_that_said_their_kind_by_a_text_are_read() -> None:
    def read(kind: str) -> Any:
        return union_from_json(ConstantInput, {"alias": "r0", "kind": kind, "name": "n", "columns": []})

    kinds = {"table": TableInput, "query": AnswersInput, "revisions": RevisionsInput, "final": FinalInput}
    for word, kind in {**kinds, "late": LateInput, "dead": DeadInput}.items():
        assert read(word) == kind("r0", "n", ())


def test_types_that_stood_beside_expressions_are_read() -> None:
    key = from_json(Key, {"name": "k0", "expression": ["k"], "type": "INTEGER"})
    assert (key, key.type) == (Key("k0", Expression.column_of("k")), "INTEGER")
    shown = from_json(Output, {"name": "n", "expression": '"a0" + 1', "type": "BIGINT"})
    assert (shown.sql, shown.expression.columns) == ('("a0" + 1)::BIGINT AS "n"', ("a0",))
    told = {"name": "a0", "function": "sum", "arguments": [["v"]], "argument_types": ["DOUBLE"], "type": "DOUBLE"}
    assert [each.type for each in from_json(Aggregate, told).arguments] == ["DOUBLE"]
    assert from_json(Aggregate, {"name": "a0", "function": "count_star", "argument_types": []}).arguments == ()


def test_arguments_of_groups_whose_kind_was_a_text_are_read() -> None:
    kinds = ("counted", "whole", "decimal", "floating")
    kept = {"keys": [], "arguments": [{"kind": k, "digits": 2 if k == "decimal" else 0} for k in kinds], "select": []}
    read = from_json(Grouping, kept)
    assert read.arguments == (CountedArgument(), WholeArgument(), DecimalArgument(2), FloatingArgument())
    assert from_json(Grouping, to_json(read)) == read


def test_joins_whose_places_were_sql_are_read() -> None:
    sides = {"left": 0, "left_sql": '"k"', "right": 1, "right_sql": '"k" + 1'}
    spread = ['CAST("k" AS BIGINT)', ""]
    join = from_json(
        JoinPlan,
        {"kind": "inner", "items": ["r0", "r1"], "sources": ["a", "b"], "equalities": [sides], "on": None,
         "where": None, "select": "*", "spread": spread, "hashes": [spread], "deal": ['"a"', "copies", ""]},
    )  # fmt: skip
    (equality,) = join.equalities
    assert (equality.side(0).column, equality.side(1).column, equality.side(1).columns) == ("k", None, ("k",))
    assert [each and each.columns for each in join.spread] == [("k",), None] and join.hashes == (join.spread,)
    assert not any(map(are_together, join.spread)) and join.salting == (SaltedBy('"a"'), Copied(), NotSalted())
    rows = to_json(Rows(1, "ts", ("k",)))
    kept = {"owner": "x", "spec": rows, "first_epoch": 1, "home": -1, "spread": "'together a, b'", "deal": "copies"}
    assert from_json(Store, kept).shard == -1 and from_json(Store, {**kept, "home": 3}).shard == 3
    named = {**kept, "deal": {"type": "DealtBy", "column": '"b"'}}  # as it was called before
    assert from_json(Store, named).salting == SaltedBy('"b"')
    assert from_json(Store, kept).salting == Copied() and from_json(Store, {**kept, "deal": ""}).salting == NotSalted()
    assert are_together(from_json(Store, kept).spread) and from_json(Store, {**kept, "spread": ""}).spread is None
    assert from_json(Store, {**kept, "spread": "'everywhere'"}).spread == EVERYWHERE
