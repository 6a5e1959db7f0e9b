"""Streams may be called by any printable name: their folders lie in the pond, and are found again."""

import os

import pytest

import millpond
from millpond.types import StreamDefinition

NAMES = ["a/b", "../../out", "..", "a%2Fb", "100%\\ #?*", "道" * 128]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_streams_of_any_name_are_kept_in_the_pond(tmp_path):
    home = tmp_path / "outer" / "pond"
    with millpond.open(home, executor="inline") as pond:
        for n, name in enumerate(NAMES):
            pond.sql(f"""
                CREATE STREAM {quoted(name)} (ts TIMESTAMP, n INTEGER);
                CREATE QUERY counted{n} AS SELECT sum(n) AS n FROM {quoted(name)} [TUMBLING 1 MINUTE];
                CREATE STREAM {quoted("d" + name[:127])} AS SELECT ts, n FROM {quoted(name)} WHERE n > 1
            """)
            pond.ingest(name, [{"ts": "2026-01-01", "n": n}, {"ts": "2026-01-01", "n": 2}, {"ts": None}])
        pond.drain()
    with millpond.open(home, executor="inline") as pond:
        pond.drain(final=True)
        for n, name in enumerate(NAMES):
            assert pond.sql(f"SELECT n FROM counted{n}").rows() == [(n + 2,)], name
            passed = pond.sql(f"SELECT n FROM {quoted('d' + name[:127])}").rows()
            assert sorted(passed) == sorted((m,) for m in (n, 2) if m > 1), name
            assert pond.sql(f"SELECT count(*) FROM dead({quoted(name)})").rows() == [(1,)], name
    assert os.listdir(tmp_path) == ["outer"] and os.listdir(tmp_path / "outer") == ["pond"]
    assert sum("_delta_log" in folders for _, folders, _ in os.walk(home / "streams")) == 2 * len(NAMES)


@pytest.mark.parametrize(
    "name, folder", [("Straße 7", "straße 7-9"), ("100%", "100%-9"), ("é" * 128, "é" * 126 + "-9"), ("a/b", "a_b-9")]
)
def test_folders_keep_as_much_of_a_name_as_they_can(name, folder):
    assert StreamDefinition(name, (), id=9).folder == folder and len(folder.encode()) <= 255
