"""The parts of the demo that need no engine."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from millpond.cli.demo import WRITTEN_PATH, disorder, example_folder, fresh_folder, landing_files, split_script
from millpond.support.errors import PondError


def quiet() -> Console:
    return Console(file=io.StringIO())


def test_the_example_is_as_its_readme_says() -> None:
    files = landing_files(example_folder(), 2)
    text = disorder(files)
    assert text.startswith(f"55,466 landing reports in {len(files)} files")
    assert text.endswith("89% are out of order, by up to 10.8 hours")
    assert "**88.8 % out of order**" in (example_folder() / "README.md").read_text()
    assert sum(file.stat().st_size for file in files) < 4_000_000


def test_one_month_is_a_part_of_the_files_in_the_same_order() -> None:
    both = landing_files(example_folder(), 2)
    one = landing_files(example_folder(), 1)
    assert both[: len(one)] == one
    assert one[-1].name == "landings-2013-03-31.parquet"


def test_the_script_is_cut_at_the_drain(tmp_path: Path) -> None:
    script = (example_folder() / "demo.sql").read_text()
    assert WRITTEN_PATH in script
    setup, answers = split_script(script, tmp_path / "it's")
    assert WRITTEN_PATH not in setup
    assert "it''s" in setup
    assert setup.count("CREATE QUERY") == 3
    assert len(answers) == 4
    assert all(title and statement.startswith("SELECT") for title, statement in answers)


def test_only_a_folder_made_by_a_demo_is_removed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").touch()
    with pytest.raises(PondError, match="not made by a demo"):
        fresh_folder(tmp_path / "mine", quiet())
    assert (tmp_path / "mine" / "precious").exists()
    incoming = fresh_folder(tmp_path / "demo", quiet())
    (incoming / "old").touch()
    assert list(fresh_folder(tmp_path / "demo", quiet()).iterdir()) == []
