"""Late rows that no state covers are counted on Spark, too: in windows, sessions, a relation and a derived stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import millpond.engine.control.loop as loop
from tests.engine.mending_scenario import STAGES, check, feed, setup
from tests.properties.harness import table_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NAMES = ("sliding", "rows", "sessions", "summed", "over_x")


def test_answers_are_those_of_all_rows(spark_pond: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    mended: list[str] = []
    attempt = loop.attempt_mending

    def attempted(*parts: Any) -> None:
        mended.append(parts[-1])
        attempt(*parts)

    monkeypatch.setattr(loop, "attempt_mending", attempted)
    pond = spark_pond()
    pond.sql(setup(NAMES))
    for stage in range(STAGES):
        feed(pond, stage)
    pond.drain(final=True)
    check({name: table_rows(pond.sql(f"SELECT * EXCLUDE (revision) FROM {name}").table) for name in NAMES})
    assert len(set(mended)) >= len(NAMES)
