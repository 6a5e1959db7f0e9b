"""Golden files: expected text kept beside a test, rewritten when asked."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

#: Set to 1 to rewrite golden files and the expected rows of `.slt` cases with what was got.
UPDATE = "MILLPOND_UPDATE"


def updating() -> bool:
    """Whether expected texts are to be rewritten instead of compared."""
    return os.environ.get(UPDATE, "") not in ("", "0")


def golden(path: str | os.PathLike[str], got: str) -> None:
    """Compare `got` with the file at `path`; with `MILLPOND_UPDATE=1` in the environment, write it there instead.

    Raises AssertionError with a diff if they differ or the file is missing.

        golden("tests/golden/explain.txt", str(pond.explain("q")))
    """
    file = Path(path)
    if updating():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(got, encoding="utf-8")
        return
    if not file.exists():
        raise AssertionError(f"{file}: no such golden file; run with {UPDATE}=1 to write it")
    expected = file.read_text(encoding="utf-8")
    if expected != got:
        lines = difflib.unified_diff(expected.splitlines(), got.splitlines(), "expected", "got", lineterm="")
        raise AssertionError(f"{file} differs ({UPDATE}=1 rewrites it):\n" + "\n".join(lines))
