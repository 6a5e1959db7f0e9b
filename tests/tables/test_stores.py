"""How object stores are reached: with the options that the last opening of a pond gave."""

from __future__ import annotations

from pathlib import Path

from millpond.tables.locations import know, options_of, write_options


def test_a_later_opening_gives_other_options(tmp_path: Path) -> None:
    root = f"file://{tmp_path / 'archive'}"
    know(root, str(tmp_path))
    assert options_of(f"{root}/streams") is None
    for secret in ("first", "second"):
        write_options(str(tmp_path), {"aws_secret_access_key": secret})
        know(root, str(tmp_path))  # as a worker that lives on does
        assert options_of(f"{root}/streams") == {"aws_secret_access_key": secret}
