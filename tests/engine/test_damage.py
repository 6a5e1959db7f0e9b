"""What is lost of a pond's files is told at opening: a pond never answers from what is left."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import millpond
from tests.conftest import Factory

Damage = Callable[[Path], object]


def without_last_line(name: str) -> Damage:
    """The last line of a file is lost."""

    def damage(pond: Path) -> None:
        [file] = pond.glob(name)
        file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))

    return damage


def without(name: str) -> Damage:
    """A file or a folder is lost."""

    def damage(pond: Path) -> None:
        [found] = pond.glob(name)
        shutil.rmtree(found) if found.is_dir() else found.unlink()

    return damage


def without_last(name: str, count: int = 1) -> Damage:
    """The last files of some are lost."""
    return lambda pond: [file.unlink() for file in sorted(pond.glob(name))[-count:]]


DAMAGES: dict[str, tuple[Damage, str]] = {
    "an event": (
        without_last_line("catalog/events.jsonl"),
        "catalog/events.jsonl has 1 of the 2 events that epoch 3 saw",
    ),
    "all events": (without("catalog/events.jsonl"), "catalog/events.jsonl has 0 of the 2 events"),
    "the catalog": (without("catalog"), "catalog/events.jsonl has 0 of the 2 events"),
    "row queries": (without("catalog/register.jsonl"), "catalog/register.jsonl has 0 of the 1 events"),
    "an item": (without_last_line("intake/*/intake.jsonl"), "intake.jsonl has 2 of the 3 items"),
    "the intake log": (without("intake/*/intake.jsonl"), "intake.jsonl has 0 of the 3 items"),
    "intake": (without("intake"), "intake.jsonl has 0 of the 3 items"),
    "state": (without("state"), "state/_delta_log has 0 of the . versions"),
    "results": (without("results"), "results/_delta_log has 0 of the . versions"),
    "archives": (without("streams"), "streams/.*/_delta_log has 0 of the . versions"),
    "a commit of state": (without_last("state/_delta_log/0*.json"), "state/_delta_log has"),
    "a commit of results": (without_last("results/_delta_log/0*.json"), "results/_delta_log has"),
    "a commit of an archive": (without_last("streams/*/_delta_log/0*.json"), "streams/.*/_delta_log has"),
    "publish records": (without("published"), "published/ ends with epoch 0, and epoch 3 was begun"),
    "two publish records": (without_last("published/*.json", 2), "published/ ends with epoch 1, and epoch 3 was begun"),
}


def made(factory: Factory) -> tuple[Path, list[dict[str, object]]]:
    """A closed pond of three epochs with a window query, and its answers."""
    pond = factory()
    pond.sql(
        "CREATE STREAM s (ts TIMESTAMP, v INTEGER) WITH (event_time='ts');"
        "CREATE QUERY r AS SELECT v FROM s WHERE v > 3;"
        "CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS]"
    )
    for minute in range(3):
        pond.ingest("s", [{"ts": f"2026-01-01 00:0{minute}:{second:02}", "v": second} for second in range(30)])
        pond.step()
    answers = pond.sql("SELECT * FROM q").table.to_pylist()
    pond.close()
    return Path(pond.path), answers


@pytest.mark.parametrize("what", DAMAGES)
def test_a_pond_that_lacks_something_does_not_open(inline_pond: Factory, what: str) -> None:
    path, _ = made(inline_pond)
    damage, message = DAMAGES[what]
    damage(path)
    for _ in range(2):  # what an opening makes anew does not help the next one
        with pytest.raises(millpond.PondError, match=message) as caught:
            millpond.open(path, executor="inline")
        assert "is damaged" in str(caught.value) and "restore the pond" in str(caught.value)


def test_the_last_publish_record_may_be_missing(inline_pond: Factory) -> None:
    """As it is where a process was killed in the middle of an epoch."""
    path, answers = made(inline_pond)
    landing = next(path.glob("intake/*/landing"))
    with millpond.open(path, executor="inline") as pond:
        pond.ingest("s", [{"ts": "2026-01-01 00:03:00", "v": 0}])
    kept = shutil.copytree(landing, path.parent / "landing")
    with millpond.open(path, executor="inline") as pond:
        pond.step()
    sorted(path.glob("published/*.json"))[-1].unlink()
    shutil.copytree(kept, landing, dirs_exist_ok=True)
    with millpond.open(path, executor="inline") as pond:
        pond.drain(final=True)
        assert pond.sql("SELECT * FROM q").table.to_pylist()[: len(answers)] == answers


def test_a_stream_made_anew_under_the_name_of_one_that_was_dropped(inline_pond: Factory) -> None:
    path, _ = made(inline_pond)
    with millpond.open(path, executor="inline") as pond:
        pond.sql("DROP STREAM s CASCADE; CREATE STREAM s (ts TIMESTAMP) WITH (event_time='ts')")
    with millpond.open(path, executor="inline") as pond:
        pond.ingest("s", [{"ts": "2026-01-01"}])
        pond.drain(final=True)
        assert pond.sql("SELECT count(*) FROM s").rows() == [(1,)]
    with millpond.open(path, executor="inline"):
        pass


CONTENTS = {"cut": lambda data: data[: len(data) // 2], "other": lambda _: b"garbage!" * 8, "empty": lambda _: b""}
FILES = ["pond.json", "manifests/*.json", "published/*.json", "state/_delta_log/*.json", "results/_delta_log/*.json",
         "streams/*/_delta_log/*.json", "catalog/v*.json", "results/*.parquet", "streams/*/*.parquet"]  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_read_is_named(inline_pond: Factory, tmp_path: Path, name: str) -> None:
    """Whoever meets it first says which file it is and what to do, and nothing raises what readers raise."""
    path, _ = made(inline_pond)
    met = 0
    for how, change in CONTENTS.items():
        copy = tmp_path / f"{how}"
        shutil.copytree(path, copy)
        file = sorted(copy.glob(name))[-1]
        file.write_bytes(change(file.read_bytes()))
        told = []
        try:
            pond = millpond.open(copy, executor="inline")
        except millpond.PondError as error:
            told.append(str(error))
        else:
            with pond:
                for statement in ("SELECT * FROM q", "SELECT sum(v) FROM s", "INVOKE r"):
                    try:
                        pond.sql(statement)
                    except millpond.MillpondError as error:
                        told.append(str(error))
                try:
                    pond.ingest("s", [{"ts": "2026-01-01 00:09:00", "v": 1}])
                    pond.step()
                except millpond.MillpondError as error:
                    told.append(str(error))
        met += any(file.name in text and "is damaged" in text and "restore the pond" in text for text in told)
        assert all(file.name in text for text in told), told
    assert met >= 2  # an empty commit of a Delta log is one without rows


def test_a_description_without_what_it_says_is_damaged(inline_pond: Factory) -> None:
    path, _ = made(inline_pond)
    (path / "pond.json").write_text("{}")
    with pytest.raises(millpond.PondError, match=r"pond\.json is damaged: it lacks 'format'; restore the pond"):
        millpond.open(path, executor="inline")
