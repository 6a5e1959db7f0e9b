"""The predicate index as a collection: adding, removing, replacing, shipping."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.synopses.predicate_index.boxes import BoxTable
from millpond.types import Interval
from tests.synopses.blocks_data import CONDITIONS


def _key(boxes: Any) -> str:
    return repr(boxes).replace("-0.0", "0.0")


def _blank(boxes: Any) -> Any:
    """Bounds of IS NULL don't count."""
    return tuple(tuple(Interval(i.attribute, i.kind, null=True) if i.null else i for i in box) for box in boxes)


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "many", "remove", "ship", "merge", "compile"]), st.integers(0, 8), CONDITIONS),
    max_size=25,
)


@settings(max_examples=120, deadline=None)
@given(STEPS)
def test_it_is_a_dictionary_of_boxes(steps: list[Any]) -> None:
    table, model = BoxTable(), {}
    for do, query, boxes in steps:
        version = table.version
        if do == "add":
            table.add(query, boxes)
            model[query] = boxes
        elif do == "many":
            table.add_many([(query, ((),)), (query + 1, boxes), (query, boxes)])
            model[query] = model[query + 1] = boxes
        elif do == "remove":
            assert table.remove(query) == (model.pop(query, None) is not None)
        elif do == "ship":
            table = BoxTable.from_tables(table.to_tables())
            assert table.version == version
        elif do == "merge":
            other = BoxTable()
            other.add_many([(query, ((),)), (query + 2, boxes), (query + 1, boxes)])
            other.remove(query + 1)
            table.merge(other)
            model[query], model[query + 2] = ((),), boxes
        else:
            assert table.compile().queries.tolist() == sorted(model)
        if do in ("add", "many", "merge"):
            assert table.version == version + 1
        assert sorted(table.queries()) == sorted(model) and len(table) == len(model)
        for known, expected in model.items():
            assert known in table and _key(table.boxes(known)) == _key(_blank(expected))
        used = {i.attribute: i.kind for boxes_ in model.values() for box in boxes_ for i in box}
        assert table.attributes() == used


def test_removing_most_gives_memory_back() -> None:
    table = BoxTable()
    table.add_many(
        (q, ((Interval('"a"', "integer", q, q + 1), Interval('"b"', "text", f"x{q}", None)),)) for q in range(5000)
    )
    before = table.nbytes
    assert table.remove_many(range(10, 6000)) == 4990
    assert table.nbytes < before / 20
    assert table.boxes(3)[0][1].low == "x3" and table.compile().queries.tolist() == list(range(10))
    assert table.remove_many([77]) == 0


def test_a_snapshot_does_not_move() -> None:
    table = BoxTable()
    table.add(1, ((Interval('"a"', "integer", 1, 2),),))
    snapshot = table.compile()
    table.add_many((q, ((Interval('"a"', "integer", -q, q),),)) for q in range(2, 500))
    table.remove(1)
    assert snapshot.queries.tolist() == [1] and snapshot.iv_low.tolist() == [0]
    assert snapshot.constants[0][0].tolist() == [1, 2]
    assert len(table.compile().queries) == 498


def test_constants_are_kept_once_and_beyond_the_kind_cut() -> None:
    table = BoxTable()
    table.add_many((q, ((Interval('"f"', "float", math.nan, float("nan")),),)) for q in range(50))
    assert len(table.compile().constants[0][0]) == 1
    table.add(60, ((Interval('"i"', "integer", -(2**70), 2**70),),))
    assert table.boxes(60) == ((Interval('"i"', "integer"),),)
    table.add(61, ((Interval('"i"', "integer", None, -(2**70)),), (Interval('"f"', "float", 10**400, None),)))
    assert table.boxes(61)[0][0].low == 2**63 and table.boxes(61)[1][0].low == math.inf


def test_tables_are_plain_arrow() -> None:
    table = BoxTable()
    table.add(5, ((Interval('"t"', "text", "é", None),), ()))
    shipped = {}
    for name, content in table.to_tables().items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, content.schema) as writer:
            writer.write_table(content)
        shipped[name] = pa.ipc.open_stream(sink.getvalue()).read_all()
    assert BoxTable.from_tables(shipped).boxes(5) == table.boxes(5)
