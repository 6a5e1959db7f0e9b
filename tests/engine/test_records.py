"""Manifests and publish records: what is written is what is read, by any later version of the same fields."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import (
    Manifest,
    Published,
    Split,
    StreamCounts,
    last_record,
    manifest_path,
    published_path,
    read_manifest,
    read_published,
    write_manifest,
    write_published,
)
from millpond.progress import NEVER, StreamProgress
from millpond.progress.generators import Partition
from millpond.tables import Segment
from millpond.types import from_json, to_json

COUNTS = st.integers(0, 2**53)
INSTANTS = st.integers(-(2**62), 2**62)
NAMES = st.text(max_size=5)
IDS = st.integers(1, 99).map(str)
SEGMENTS = st.builds(
    Segment, NAMES, COUNTS, COUNTS, INSTANTS, INSTANTS, COUNTS, COUNTS, st.integers(0, 5), st.integers(-1, 9)
)
PARTITIONS = st.builds(Partition, INSTANTS, INSTANTS, st.lists(INSTANTS, max_size=3).map(tuple), COUNTS)
PROGRESS = st.builds(
    StreamProgress,
    INSTANTS,
    INSTANTS,
    st.none() | INSTANTS,
    st.booleans(),
    st.dictionaries(NAMES, PARTITIONS, max_size=2),
)
QUERIES = st.builds(QueryProgress, INSTANTS, INSTANTS, COUNTS, COUNTS, COUNTS, st.none() | COUNTS)
ITEMS = st.lists(st.fixed_dictionaries({"ordinal": COUNTS, "path": NAMES, "rows": st.none() | COUNTS}), max_size=2).map(
    tuple
)
MANIFESTS = st.builds(
    Manifest,
    epoch=st.integers(1, 10**9),
    clock=INSTANTS,
    version=COUNTS,
    shards=st.integers(1, 9),
    splits=st.lists(st.builds(Split, COUNTS, ITEMS, ITEMS), max_size=2).map(tuple),
    intake=st.dictionaries(IDS, COUNTS, max_size=2),
    ends=st.lists(COUNTS, max_size=2).map(tuple),
    progress=st.dictionaries(IDS, PROGRESS, max_size=2),
    queries=st.dictionaries(IDS, QUERIES, max_size=2),
    state=st.lists(SEGMENTS, max_size=2).map(tuple),
    adopt=st.lists(IDS, max_size=2).map(tuple),
    compact=st.dictionaries(IDS, st.lists(NAMES, max_size=2).map(tuple), max_size=2),
    expire=st.lists(NAMES, max_size=2).map(tuple),
)
PUBLISHED = st.builds(
    Published,
    epoch=st.integers(1, 10**9),
    clock=INSTANTS,
    version=COUNTS,
    intake=st.dictionaries(IDS, COUNTS, max_size=2),
    progress=st.dictionaries(IDS, PROGRESS, max_size=2),
    counts=st.dictionaries(IDS, st.builds(StreamCounts, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS), max_size=2),
    queries=st.dictionaries(IDS, QUERIES, max_size=2),
    tables=st.dictionaries(NAMES, COUNTS, max_size=2),
)


@given(MANIFESTS)
def test_a_manifest_is_read_as_written(manifest: Manifest) -> None:
    assert from_json(Manifest, json.loads(json.dumps(to_json(manifest)))) == manifest


@given(PUBLISHED)
def test_a_publish_record_is_read_as_written(published: Published) -> None:
    assert from_json(Published, json.loads(json.dumps(to_json(published)))) == published


def test_files(tmp_path: Path) -> None:
    for kind in ("manifests", "published"):
        (tmp_path / kind).mkdir()
        assert last_record(str(tmp_path), kind) == 0
    manifest = Manifest(12, 5, 3, 2, progress={"1": StreamProgress(7, 9)}, queries={"2": QueryProgress(NEVER)})
    write_manifest(str(tmp_path), manifest)
    write_published(str(tmp_path), Published(11))
    assert read_manifest(str(tmp_path), 12) == manifest
    assert read_published(str(tmp_path), 11) == Published(11)
    (tmp_path / "manifests" / "000000000013.json.99.tmp").write_bytes(b"{")
    assert (last_record(str(tmp_path), "manifests"), last_record(str(tmp_path), "published")) == (12, 11)


def test_equal_values_give_equal_bytes(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    texts = []
    for intake in ({"1": 5, "2": 7}, {"2": 7, "1": 5}):
        write_manifest(str(tmp_path), Manifest(1, 0, 0, 1, intake=intake))
        texts.append(Path(manifest_path(str(tmp_path), 1)).read_bytes())
    assert texts[0] == texts[1]
    assert published_path("p", 1).endswith("published/000000000001.json")


def test_records_of_other_versions() -> None:
    """A field that is not known is ignored, one that is missing takes its default."""
    assert from_json(Published, {"epoch": 3, "colour": "blue"}) == Published(3)
