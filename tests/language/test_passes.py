"""Every pass of the language by itself: cases of two lines, see `passes`."""

from __future__ import annotations

import pytest
from tests.language.passes import CASES, PASSES, cases, outcome


def test_every_pass_has_cases_and_every_file_a_pass() -> None:
    assert {f.stem for f in CASES.glob("*.txt")} == set(PASSES)
    assert all(len(list(cases(name))) >= 5 for name in PASSES)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [pytest.param(name, text, out, id=f"{name}:{line}") for name in PASSES for line, text, out in cases(name)],
)
def test_a_pass(name: str, text: str, expected: str) -> None:
    assert outcome(name, text) == expected
