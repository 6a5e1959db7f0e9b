"""kill -9 while row queries are registered and rows meet them: every acknowledged one is there, nothing is doubled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import millpond
from millpond.synopses.predicate_index.block_files import read_blocks
from millpond.synopses.predicate_index.matches import rows_of
from tests.engine.lives import KILLED, Server
from tests.engine.soup_child import ROUNDS, ROWS, rows, texts

CHILD = Path(__file__).with_name("soup_child.py")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server(CHILD)
    yield running
    running.close()


def check(work: Path) -> None:
    acks = [json.loads(line) for line in (work / "acks").read_text().splitlines()]
    data = pa.concat_tables([rows(n) for n in range(ROUNDS)])
    a = data["a"].to_numpy()
    with millpond.open(work / "pond", executor="inline") as pond:
        register = pond._core.register
        live = set(register.on_stream(1).tolist())
        dropped = set()
        for ack in acks:
            if ack["what"] == "drop":
                dropped.add(max(x["got"][1] for x in acks if x["what"] == "add" and x["round"] <= ack["round"]))
        for ack in acks:
            if ack["what"] != "add":
                continue
            for query, text in zip(ack["got"], texts(ack["round"]), strict=True):
                assert (query in live) == (query not in dropped)
                if query in live:
                    assert register.get(query).text == text
            low = ack["round"] * 10
            if ack["got"][0] in live:
                assert len(pond.sql(f'INVOKE "#{ack["got"][0]}"').rows()) == np.sum((a >= low) & (a < low + 15))
        assert pond.sql("SELECT count(*) AS n FROM s").rows() == [(ROWS * ROUNDS,)]
        odd = sum(t == "odd" for t in data["t"].to_pylist())
        letters = pond.sql("SELECT source, record FROM dead(s)").rows()
        assert len(letters) == len(set(letters)) == odd and {s for s, _ in letters} == {"query cast"}
        files = sorted((work / "pond" / "hot" / "s-1").iterdir())
        assert files and all(f.name.endswith(".blocks") for f in files)
        matched = 0
        for file in files:
            found = read_blocks(str(file))
            assert found is not None
            for block, matches in found:
                assert matches is not None
                for query in set(matches.queries.tolist()) & live:
                    boxes = register.get(query).selection.sides[0].boxes
                    got = matches.rows(query)
                    assert got is not None and got.tolist() == rows_of(block, boxes).tolist()
                    matched += len(got)
        assert matched


GROUPS = (
    ("line", "shipping", "blocks", "checkpoint", "published", "committed"),
    ("written", "manifest", "archive", "base", "synced"),
)


@pytest.mark.parametrize("moments", GROUPS, ids="-".join)
def test_killed_again_and_again(server: Server, tmp_path: Path, moments: tuple[str, ...]) -> None:
    """One life after the other killed at another kind of moment, then one to the end."""
    ends = [server.run(tmp_path, None, moment, "1" if moment == "base" else "2") for moment in moments]
    assert set(ends) <= {0, KILLED}
    assert ends.count(KILLED) >= len(moments) - 1
    assert server.run(tmp_path) == 0
    check(tmp_path)
