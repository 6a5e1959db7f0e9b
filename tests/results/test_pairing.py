"""Composite tuples: pairs of many structs at once equal one at a time, and nested loops."""

from __future__ import annotations

import operator as op
import random

import numpy as np
import pytest

from millpond.answers.row_queries.pairing import (
    Shared,
    Sorted,
    expand,
    join_many,
    mirrored,
    probe_composite,
    probe_separately,
    runs,
)

HOLDS = {"=": op.eq, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}


def test_runs_and_expand_equal_nested_loops() -> None:
    rng = np.random.default_rng(1)
    for name, holds in HOLDS.items():
        for size in (0, 1, 50):
            keys, values = np.sort(rng.integers(0, 20, size)), rng.integers(-2, 23, 30)
            low, high = runs(values, name, keys)  # type: ignore[arg-type]  # random values of one kind
            wanted = [(i, j) for i, v in enumerate(values) for j, k in enumerate(keys) if holds(v, k)]
            for at_once in (1, 7, 10_000):
                pieces = list(expand(low, high, at_once))
                assert all(len(v) <= at_once for v, _ in pieces)
                assert [(int(i), int(j)) for v, k in pieces for i, j in zip(v, k, strict=True)] == wanted
            turned = {(j, i) for i, v in enumerate(values) for j, k in enumerate(keys) if HOLDS[mirrored(name)](k, v)}  # type: ignore[index, arg-type]  # values of one kind
            assert turned == {(j, i) for i, j in wanted}


@pytest.mark.parametrize("own", ["=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("other", ["=", "<", ">=", None])
def test_composite_equals_separate_and_nested_loops(own: str, other: str | None) -> None:
    rng = np.random.default_rng(2)
    b, c = rng.integers(0, 30, 200), rng.integers(0, 10, 200)
    values = rng.integers(0, 30, 40)
    stored = Sorted.of(b)
    shared = None if other is None else Shared(Sorted.of(c), other, 4)  # type: ignore[arg-type]  # values of one kind
    wanted = [
        (i, j)
        for i, v in enumerate(values)
        for j in range(200)
        if HOLDS[own](v, b[j]) and (other is None or HOLDS[other](c[j], 4))
    ]
    for probe in (probe_composite, probe_separately):
        structs, rows = probe(values, own, stored, shared)  # type: ignore[arg-type]  # random values of one kind
        assert structs.tolist() == [i for i, _ in wanted]
        assert sorted(zip(structs.tolist(), rows.tolist(), strict=True)) == wanted


def test_many_queries_and_many_tuples_at_once() -> None:
    rng = random.Random(3)
    tuples = np.array([rng.randrange(20) for _ in range(15)])
    queries = np.array([rng.randrange(-5, 6) for _ in range(12)])
    b = np.array([rng.randrange(20) for _ in range(60)])
    for own, holds in HOLDS.items():
        q, t, s = join_many(tuples, queries, own, Sorted.of(b), Shared(Sorted.of(b), ">", 3))  # type: ignore[arg-type]  # values of one kind
        wanted = [
            (i, j, k)
            for i, c in enumerate(queries)
            for j, v in enumerate(tuples)
            for k, stored in enumerate(b)
            if holds(v, stored + c) and stored > 3
        ]
        assert sorted(zip(q.tolist(), t.tolist(), s.tolist(), strict=True)) == wanted
    assert [len(x) for x in join_many(tuples[:0], queries, "=", Sorted.of(b), None)] == [0, 0, 0]


def test_an_index_grows_by_merging() -> None:
    rng = np.random.default_rng(4)
    keys = rng.integers(0, 50, 300)
    index = Sorted.of(keys[:0], np.empty(0, np.int64))
    for start in range(0, 300, 37):
        part = keys[start : start + 37]
        index = index.merged(Sorted.of(part, np.arange(start, start + len(part))))
    assert index.keys.tolist() == sorted(keys.tolist())
    assert keys[index.rows].tolist() == index.keys.tolist()
