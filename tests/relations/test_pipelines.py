"""Joins of many inputs: their graphs, their pipelines in any order, and what comes out: always the same."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from millpond.relations import answers, joining
from millpond.support.errors import StatementError
from millpond.synopses import parallel
from millpond.types import Joined, Recomputed
from millpond.types.join_graphs import JoinGraph, graph_of
from tests.oracle.cql import Stamped
from tests.relations.setting import Evaluated, bound, stored, stream
from tests.relations.xjoin import Equality, Span, xjoin

R1, R2, R3 = stream("R1", A="INTEGER"), stream("R2", A="INTEGER", B="INTEGER"), stream("R3", B="INTEGER")
AB = {"a": "INTEGER", "b": "INTEGER"}
STREAMS = [stream(name, **AB) for name in "vwxyz"]


@dataclass
class Watching:
    """An observer that says in which order pipelines go, and notes what they do: (input, asked, rows in, rows left)."""

    orders: dict[int, tuple[int, ...]]
    steps: list[tuple[int, int, int, int]] = field(default_factory=list)

    def order(self, number: int) -> tuple[int, ...] | None:
        return self.orders.get(number)

    def piece(self, pipeline: Any) -> Any:
        self.pipeline = pipeline
        return self

    def clock(self) -> Any:
        return self

    def lap(self) -> float:
        return 0.0

    def step(self, item: int, entered: int, left: Any, seconds: float) -> None:
        self.steps.append((self.pipeline.number, item, entered, len(left)))

    def end(self) -> None:
        pass


def test_e1_a_row_goes_down_its_pipeline() -> None:
    """Example 5.1.1: after R2 <1,1,2> and <1,1,3>, of which R3 lets the first through."""
    text = "SELECT R1.A, R2.A AS A2, R2.B, R3.B AS B3 FROM R1 [ROWS 9], R2 [ROWS 9], R3 [ROWS 9]"
    query = bound(f"{text} WHERE R1.A = R2.A AND R2.B = R3.B", R1, R2, R3)
    data = {
        "R1": stored(R1, [Stamped(5, 0, (1,))]),
        "R2": stored(R2, [Stamped(n, n, v) for n, v in enumerate([(1, 2), (1, 3), (2, 3)])]),
        "R3": stored(R3, [Stamped(3, 0, (2,)), Stamped(4, 1, (4,))]),
    }
    watching = Watching({0: (1, 2)})
    evaluated = Evaluated(query, data)
    found = answers(evaluated.db, query, evaluated.contents, {}, 5, 9, observer=watching)
    assert [tuple(c.to_pylist() for c in found.columns)] == [([5], [1], [1], [1], [2], [2], [1])]
    assert watching.steps == [(0, 1, 1, 1), (0, 2, 1, 1)]
    pipeline = watching.pipeline
    assert pipeline.growing == {1}  # R2 leads to R3
    kept, matched = pipeline.inputs.probe({0: pipeline.rows}, pipeline.at, pipeline.at + 1, 1)
    assert [kept.tolist(), matched.tolist()] == [[0, 0], [0, 1]]
    # What has no partner in R2 is not looked for in R3.
    data["R1"] = stored(R1, [Stamped(5, 0, (7,))])
    watching = Watching({})
    evaluated = Evaluated(query, data)
    assert not answers(evaluated.db, query, evaluated.contents, {}, 5, 9, observer=watching).num_rows
    assert watching.steps == [(0, 1, 1, 0)]


def test_e6_logical_filters() -> None:
    """Figure 5.3a: edges R1-R2, R1-R3, R3-R4, R3-R5, R5-R6; items are numbered from 0."""
    edges = [(0, 1), (0, 2), (2, 3), (2, 4), (4, 5)]
    graph = JoinGraph(6, tuple({a: f"c{n}", b: f"c{n}"} for n, (a, b) in enumerate(edges)))
    assert graph.shape == "acyclic"
    assert graph.paths(0) == {1: (1,), 2: (2,), 3: (2, 3), 4: (2, 4), 5: (2, 4, 5)}
    greedy = [3, 2, 1, 4, 5]  # F3, F2, F1, F4, F5
    assert [n + 1 for n in graph.order(0, greedy)] == [3, 4, 2, 5, 6]
    assert [n + 1 for n in graph.order(0)] == [2, 3, 4, 5, 6]
    assert [n + 1 for n in graph.order(0, [1, 3, 2, 4, 5])] == [2, 3, 4, 5, 6]  # 2, 4, 3, 5, 6 is not legal
    assert graph.growing(0, graph.order(0, greedy)) == {2, 4}
    for item in range(6):  # no pipeline has a product
        order = graph.order(item)
        assert all(graph.links(n, {item, *order[:p]}) for p, n in enumerate(order)) and len(order) == 5


@pytest.mark.parametrize(
    ("conditions", "shape", "pipelines"),
    [
        ("v.a = w.a AND v.a = x.a AND v.a = y.a", "star", [(1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)]),
        ("v.a = w.a AND w.a = x.a AND x.a = y.a", "star", [(1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)]),
        ("v.a = w.a AND v.b = x.a AND v.b = y.a", "star", [(1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)]),
        ("v.a = w.a AND w.b = x.a AND x.b = y.a", "acyclic", [(1, 2, 3), (0, 2, 3), (1, 0, 3), (2, 1, 0)]),
        ("v.a = w.a AND w.b = x.a AND x.b < y.b", "acyclic", [(1, 2, 3), (0, 2, 3), (1, 0, 3), (2, 1, 0)]),
        ("v.a = w.a AND w.b = x.a AND x.b = y.a AND y.b = v.b", "cyclic", [(1, 2, 3), (0, 2, 3), (1, 0, 3), (0, 1, 2)]),
        ("v.a = w.a AND v.b = w.b AND w.a + x.a = 3 AND y.a = x.b", "acyclic", None),
        ("v.a > 1", "disconnected", [(1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)]),
    ],
)
def test_graphs(conditions: str, shape: str, pipelines: list[tuple[int, ...]] | None) -> None:
    text = f"SELECT v.a FROM {', '.join(f'{s.name} [NOW]' for s in STREAMS[:4])} WHERE {conditions}"
    relation = bound(text, *STREAMS)
    assert relation.joined is not None
    graph = graph_of(relation.joined)
    assert graph.shape == shape
    if pipelines is not None:
        assert [graph.order(n) for n in range(4)] == pipelines


def test_products_are_asked_for() -> None:
    def of(items: str, select: str = "v.a") -> Any:
        return bound(f"SELECT {select} FROM {items}", *STREAMS)

    for select in ("v.a", "count(*)"):
        with pytest.raises(StatementError, match="no condition links x with v, w: each row would be joined with every"):
            of("v [NOW], w [NOW], x [NOW] WHERE v.a = w.a", select)
    with pytest.raises(StatementError, match="no condition links y with v, w, x"):
        of("v [NOW] JOIN w [NOW] ON v.a = w.a JOIN x [NOW] ON x.a = v.a, y [NOW]")
    nine = ", ".join(f"v [NOW] v{n}" for n in range(9))
    with pytest.raises(StatementError, match="this join has 9 inputs, and a join of streams may have 8"):
        of(f"{nine} WHERE v0.a = v1.a", "v0.a")
    for items in ("v [NOW], w [NOW], x [NOW]", "v [NOW], w [NOW], x [NOW] WHERE v.a > 1",
                  "v [NOW] JOIN w [NOW] ON v.a = w.a CROSS JOIN x [NOW]", "v [NOW], w [NOW] WHERE v.a > 1",
                  "v [NOW] JOIN w [NOW] ON v.a = w.a JOIN x [NOW] ON true"):  # fmt: skip
        assert isinstance(of(items).plan, Joined)


#: By name: how many inputs, and which column of which input is equal to which.
GRAPHS: dict[str, tuple[int, list[Equality]]] = {
    "star3": (3, [((0, 0), (1, 0)), ((0, 1), (2, 0))]),
    "chain4": (4, [((0, 0), (1, 0)), ((1, 1), (2, 0)), ((2, 1), (3, 0))]),
    "key4": (4, [((0, 0), (1, 0)), ((1, 0), (2, 0)), ((2, 0), (3, 1))]),
    "cycle3": (3, [((0, 0), (1, 0)), ((1, 1), (2, 1)), ((2, 0), (0, 1))]),
    "tree5": (5, [((0, 0), (1, 0)), ((0, 1), (2, 1)), ((2, 0), (3, 0)), ((2, 1), (4, 1))]),
    "cycle5": (5, [((n, 0), ((n + 1) % 5, 1)) for n in range(5)]),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("seed", [1, 3])
def test_any_order_gives_what_an_xjoin_and_recomputing_give(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, equalities = GRAPHS[name]
    drawn, length = random.Random(f"{name}{seed}"), 4
    size, first = (10, [0, 1, None]) if count < 5 else (5, [0, 1])
    used = STREAMS[:count]
    rows = [
        [Stamped(drawn.randint(0, size - 1), n, (drawn.choice(first), drawn.randint(0, 1))) for n in range(size)]
        for _ in used
    ]
    tests = " AND ".join(f"{used[i].name}.{'ab'[c]} = {used[j].name}.{'ab'[d]}" for (i, c), (j, d) in equalities)
    shown = ", ".join(f"{s.name}.{c} AS {s.name}{c}" for s in used for c in "ab")
    window = f"[RANGE {length} MICROSECONDS]"
    text = f"SELECT {shown} FROM {', '.join(f'{s.name} {window}' for s in used)} WHERE {tests}"
    query = bound(text, *STREAMS)
    assert query.joined is not None
    evaluated = Evaluated(query, {s.name: stored(s, each) for s, each in zip(used, rows, strict=True)})
    spans: list[list[Span]] = [[(r.stamp, r.stamp + length + 1, r.values) for r in each] for each in rows]
    tree = drawn.sample(range(count), count)
    expected = {k: n for k, n in xjoin(spans, equalities, tree).items() if n}
    assert expected
    assert evaluated.changes(0, 40) == expected
    graph, seen = graph_of(query.joined), []
    for _ in range(3):
        orders = {n: graph.order(n, drawn.sample([m for m in range(count) if m != n], count - 1)) for n in range(count)}
        found = answers(evaluated.db, query, evaluated.contents, {}, 0, 40, observer=Watching(orders))
        seen.append(found)
        usual = answers(evaluated.db, query, evaluated.contents, {}, 0, 40)
        assert found.equals(usual)  # the same bytes, whatever the orders were
    monkeypatch.setattr(joining, "SIDE_BY_SIDE", 2)
    monkeypatch.setattr(parallel, "cores", lambda: 3)
    unsorted = Evaluated(query, {s.name: stored(s, each) for s, each in zip(used, rows, strict=True)})
    with parallel.at_most(3):  # nor in how many threads
        assert answers(unsorted.db, query, unsorted.contents, {}, 0, 40).equals(usual)
    again = Evaluated.__new__(Evaluated)
    again.__dict__ |= evaluated.__dict__
    again.query = replace(query, plan=Recomputed())
    assert again.changes(0, 40) == expected


def test_the_logical_filter_of_an_input_is_the_join_along_its_path() -> None:
    """Of a chain v - w - x: a row of v has a partner in w alone, in both, or in none."""
    query = bound("SELECT v.a FROM v [ROWS 9], w [ROWS 9], x [ROWS 9] WHERE v.a = w.a AND w.b = x.a", *STREAMS)
    data = [[(0, 0), (1, 0), (2, 0), (None, 0)], [(0, 5), (0, 6), (1, 7)], [(6, 0), (8, 0)]]
    stamps = [8, 1, 1]
    rows = {s.name: stored(s, [Stamped(t, n, v) for n, v in enumerate(each)])
            for s, each, t in zip(STREAMS, data, stamps, strict=False)}  # fmt: skip
    watching = Watching({})
    evaluated = Evaluated(query, rows)
    answers(evaluated.db, query, evaluated.contents, {}, 8, 9, observer=watching)
    pipeline, chosen = watching.pipeline, np.arange(4)
    assert pipeline.meets(1, chosen, {}, 100).tolist() == [True, True, False, False]
    assert pipeline.meets(2, chosen, {}, 100).tolist() == [True, False, False, False]
    assert pipeline.meets(2, chosen, {}, 1) is None  # too much to look at
