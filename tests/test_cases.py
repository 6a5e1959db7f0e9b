"""Every case under `tests/cases`, in every way that must not change its answers.

A run takes each case as it is written, and in a third of its other ways: other ones in each run, by its seed. In deep
mode it takes all of them.

`MILLPOND_UPDATE=1` rewrites expected rows with what the engine gives: look at the difference before keeping it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from millpond.testing import applicable_ways, run_file
from tests.quick import quick_folder, some

CASES = Path(__file__).parent / "cases"
FILES = sorted(CASES.rglob("*.slt"))


def drawn(file: Path) -> list[str]:
    """The ways in which this run takes a case."""
    ways = applicable_ways(file)
    others = [way for way in ways if way != "straight"]
    chosen = some(others, -(-len(others) // 3), f"{file.relative_to(CASES)}")
    return [way for way in ways if way == "straight" or way in chosen]


RUNS = [pytest.param(file, way, id=f"{file.relative_to(CASES)}-{way}") for file in FILES for way in drawn(file)]

#: A few cases that between them touch every part, for the runs on Spark.
ON_SPARK = (
    "windows/sliding.slt",
    "late/revise.slt",
    "sources/csv.slt",
    "lives/since.slt",
    "invoke/invoke.slt",
    "sessions/late.slt",
)


@pytest.mark.parametrize(("file", "way"), RUNS)
def test_case(file: Path, way: str) -> None:
    with quick_folder() as folder:
        run_file(file, way, folder=folder)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("file", ON_SPARK)
@pytest.mark.parametrize("way", ["straight", "restart"])
def test_case_on_spark(file: str, way: str, spark_session: object) -> None:
    if way in applicable_ways(CASES / file):
        run_file(CASES / file, way, executor="spark")
