"""What `millpond doctor` finds, and what it says when something is missing."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from millpond.support import doctor
from millpond.support.doctor import Check, diagnose, find_java, java_version, parse_java_version, render

ROOT = Path(__file__).resolve().parents[1]


def java_home(folder: Path, version: str, release: bool) -> Path:
    """A folder that looks like a Java: with a release file, or with a command that says its version."""
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    return folder


def found(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


@pytest.mark.parametrize(
    ("text", "major"),
    [("17.0.15", 17), ("1.8.0_302", 8), ("21", 21), ("26-ea", 26), ("11.0.2+9", 11), ("x", None)],
)
def test_java_versions_are_read(text: str, major: int | None) -> None:
    assert parse_java_version(text) == major


@pytest.mark.parametrize("release", [True, False])
def test_version_of_a_java_home(tmp_path: Path, release: bool) -> None:
    assert java_version(java_home(tmp_path / "j", "17.0.9", release)) == 17
    assert java_version(tmp_path / "none") is None


def test_java_home_comes_first_and_an_old_one_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = java_home(tmp_path / "new", "21.0.1", release=True)
    old = java_home(tmp_path / "old", "1.8.0_302", release=True)
    monkeypatch.setenv("JAVA_HOME", str(new))
    monkeypatch.setenv("PATH", str(old / "bin"), prepend=os.pathsep)
    assert find_java() == str(new)
    assert found(diagnose(tmp_path), "Java") == Check("Java", "ok", f"21 at {new}")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(new / "bin"), prepend=os.pathsep)
    assert find_java() == str(new)
    check = found(diagnose(tmp_path), "Java")
    assert check.status == "warn"
    assert str(old) in check.mend


def test_without_java_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = java_home(tmp_path / "old", "11.0.2", release=True)
    monkeypatch.setattr(doctor, "_java_homes", lambda: iter([str(old)]))
    assert find_java() is None
    check = found(diagnose(tmp_path), "Java")
    assert (check.status, check.found) == ("bad", f"too old: {old} (11)")
    assert check.mend == doctor.java_help()


def test_a_link_on_the_path_leads_to_its_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java_home(tmp_path / "jvm", "17.0.1", release=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    assert find_java() == str(home)


def test_everything_is_looked_at_and_nothing_is_left_behind(tmp_path: Path) -> None:
    checks = diagnose(tmp_path / "not" / "there")
    names = [check.name for check in checks]
    assert names[:2] == ["Python", "Java"]
    assert {"pyspark", "duckdb", "memory", "disk", "fsync", "Unix sockets", "locale"} <= set(names)
    assert all(check.status == "ok" or check.mend for check in checks)
    assert list(tmp_path.iterdir()) == []


def test_the_wrong_python_for_spark_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/other-python")
    check = found(diagnose(tmp_path), "Spark's Python")
    assert check.status == "warn"
    assert sys.executable in check.mend
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert found(diagnose(tmp_path), "Spark's Python").status == "ok"


def test_another_spark_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert found(diagnose(tmp_path), "Spark").status == "bad"
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").rename(tmp_path / "jars" / "spark-core_2.13-4.3.0.jar")
    assert found(diagnose(tmp_path), "Spark").status == "ok"


def test_versions_out_of_range_are_bad(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor.importlib.metadata, "version", lambda name: "1.0")
    check = found(diagnose(tmp_path), "duckdb")
    assert check.status == "bad"
    assert "duckdb>=2.0,<3" in check.mend


def test_ranges_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, (least, below) in doctor.REQUIRED.items():
        assert f"{name}>={'.'.join(map(str, least))},<{'.'.join(map(str, below))}" in project["dependencies"]


def test_constraints_pin_every_dependency_within_its_range() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.lower().replace("_", "-").split("==") for line in lines if line and not line.startswith("#"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [wanted for extra in project["optional-dependencies"].values() for wanted in extra]
    for wanted in project["dependencies"] + extras:
        if wanted.startswith("millpond["):
            assert wanted.removeprefix("millpond[").removesuffix("]") in project["optional-dependencies"]
            continue
        parts = re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+),<([\d.]+)", wanted)
        assert parts is not None, wanted
        name, least, below = parts.groups()
        version = [int(part) for part in pins[name].split(".")]
        assert [int(p) for p in least.split(".")] <= version < [int(p) for p in below.split(".")], name


def test_rendering_names_what_to_mend() -> None:
    out = io.StringIO()
    render([Check("a", "ok", "1"), Check("b", "bad", "none", "install b")], Console(file=out, width=80))
    assert "b: install b" in out.getvalue()
    assert "1 to mend" in out.getvalue()
