"""Whether a drain is done follows from the catalog and what is published."""

from __future__ import annotations

import pytest

from millpond.catalog import Catalog
from millpond.engine.control.draining import Goal
from millpond.manifests.records import Published
from millpond.progress import StreamProgress
from millpond.types import Column, StreamDefinition, StreamOptions

STREAMS = {n: StreamDefinition(f"s{n}", (Column("ts", "TIMESTAMP"),), StreamOptions(time="ts"), n) for n in (1, 2)}


@pytest.mark.parametrize(
    ("lengths", "ended", "intake", "over", "reached"),
    [
        ({}, (), {}, (), True),
        ({1: 0}, (), {}, (), True),
        ({1: 3}, (), {"1": 2}, (), False),
        ({1: 3}, (), {"1": 3}, (), True),
        ({1: 3, 2: 1}, (), {"1": 3}, (), False),
        ({1: 3}, (1,), {"1": 3}, (), False),
        ({1: 3}, (1,), {"1": 3}, (1,), True),
        ({1: 3, 9: 5}, (9,), {"1": 3}, (), True),  # the stream 9 was dropped since
    ],
)
def test_goals(
    lengths: dict[int, int], ended: tuple[int, ...], intake: dict[str, int], over: tuple[int, ...], reached: bool
) -> None:
    progress = {str(n): StreamProgress(ended=n in over) for n in STREAMS}
    published = Published(4, intake=intake, progress=progress)
    assert Goal(lengths, ended).reached(Catalog(streams=STREAMS), published) == reached
