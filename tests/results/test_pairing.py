"""Composite tuples: pairs of many structs at once equal one at a time, and nested loops."""

from __future__ import annotations

import operator as op

import numpy as np
import pytest
from bench.psoup.composite_tuples import Shared, probe_composite, probe_separately

from millpond.answers.row_queries.pairing import Index, mirrored

HOLDS = {"=": op.eq, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}


def test_partners_equal_nested_loops() -> None:
    rng = np.random.default_rng(1)
    ends = np.iinfo(np.int64)
    for name, holds in HOLDS.items():
        for size in (0, 1, 50):
            keys = np.r_[rng.integers(0, 20, size), [ends.min, ends.max] if size else []].astype(np.int64)
            values = np.r_[rng.integers(-2, 23, 30), [ends.min, ends.max]].astype(np.int64)
            found = Index.of(name, keys).partners(values)  # type: ignore[arg-type]  # operators by name
            wanted = [(i, j) for i, v in enumerate(values) for j, k in enumerate(keys) if holds(v, k)]
            for at_once in (1, 7, 10_000):
                pieces = list(found.pieces(at_once))
                assert all(len(v) <= at_once for v, _ in pieces)
                pairs = [(int(i), int(j)) for v, k in pieces for i, j in zip(v, k, strict=True)]
                assert [i for i, _ in pairs] == [i for i, _ in wanted] and sorted(pairs) == wanted
            turned = Index.of(mirrored(name), values).partners(keys, mirrored(name)).pairs(10_000)  # type: ignore[arg-type]  # operators by name
            assert isinstance(turned, tuple)
            assert sorted(zip(turned[1].tolist(), turned[0].tolist(), strict=True)) == wanted


@pytest.mark.parametrize("own", ["=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("other", ["=", "<", ">=", None])
def test_composite_equals_separate_and_nested_loops(own: str, other: str | None) -> None:
    rng = np.random.default_rng(2)
    b, c = rng.integers(0, 30, 200), rng.integers(0, 10, 200)
    values = rng.integers(0, 30, 40)
    stored = Index.of(own, b)  # type: ignore[arg-type]  # operators by name
    shared = None if other is None else Shared(Index.of(other, c), other, 4)  # type: ignore[arg-type]  # operators by name
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


@pytest.mark.parametrize("operator", HOLDS)
def test_an_index_grows_by_merging(operator: str) -> None:
    rng = np.random.default_rng(4)
    keys, asked = rng.integers(0, 50, 300), np.arange(-1, 52)
    index = Index.of(operator, keys[:0])  # type: ignore[arg-type]  # operators by name
    for start in range(0, 300, 37):
        part = keys[start : start + 37]
        index = index.merged(Index.of(operator, part, np.arange(start, start + len(part))))  # type: ignore[arg-type]  # operators by name
    whole = Index.of(operator, keys)  # type: ignore[arg-type]  # operators by name
    assert _pairs(index, asked) == _pairs(whole, asked)
    keep = rng.integers(0, 2, 300).astype(bool)
    assert _pairs(index.only(keep), asked) == _pairs(Index.of(operator, keys[keep]), asked)  # type: ignore[arg-type]  # operators by name


def _pairs(index: Index, asked: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[tuple[int, int]]:
    found = index.partners(asked).pairs(100_000)
    assert isinstance(found, tuple)
    return sorted(zip(found[0].tolist(), found[1].tolist(), strict=True))
