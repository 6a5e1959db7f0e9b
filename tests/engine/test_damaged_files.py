"""One damaged file of a pond that has every kind: answers stay right, or an error names the file and what to do.

A file that is not needed, or that is made anew, may be damaged unnoticed. Whatever is answered is compared with what
the pond answers undamaged, before and after it has taken in more.
"""

from __future__ import annotations

import datetime as dt
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.engine.control.epoch import begin_epoch
from millpond.tables import delta_log
from millpond.testing import VirtualClock
from tests.conftest import SEED
from tests.quick import quick_folder, some

START = dt.datetime(2026, 1, 1)

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (lateness='5s', archive='replicate(0.5)
  + summary(SELECT k, count(*) FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k)');
CREATE STREAM f (ts TIMESTAMP, k TEXT, v BIGINT) WITH (path='{work}/*.ndjson');
CREATE TABLE names (k TEXT, name TEXT) WITH (path='{work}/names.csv');
CREATE QUERY sums AS SELECT k, sum(v) AS v FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS]
  WHERE odd(v) AND big(v) GROUP BY k;
CREATE QUERY runs AS SELECT k, count(*) AS n FROM s [SESSION 1 SECOND] GROUP BY k;
CREATE QUERY by_rows AS SELECT sum(v) AS v FROM s [ROWS 10 SLIDE 5];
CREATE QUERY joined AS SELECT PAIRS(s.ts, f.v) FROM s [RANGE 9 SECONDS] JOIN f [NOW] ON s.k = f.k;
CREATE QUERY named AS SELECT name, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] JOIN names USING (k) GROUP BY name;
CREATE STREAM tops AS SELECT k, max(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k;
CREATE QUERY of_tops AS SELECT sum(v) AS v FROM tops [RANGE TUMBLING 20 SECONDS];
CREATE QUERY chosen AS SELECT ts, v FROM s WHERE v > 50 BEGIN NOW - 30 SECONDS END NOW;
CREATE QUERY mended WITH (revise_for='0 seconds') AS SELECT count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS];
"""

ASKED = (
    *(f"SELECT * FROM {name}" for name in ("sums", "runs", "by_rows", "joined", "named", "of_tops", "mended", "later")),
    "SELECT * FROM sums ALL REVISIONS",
    "INVOKE chosen",
    "INVOKE chosen AS OF TIMESTAMP '2026-01-01 00:00:30'",
    "SELECT k, count(*), sum(v) FROM s GROUP BY k",
    "SELECT count(*) FROM s REDUCE sample(0.5)",
    "SELECT k, count(*) FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k",
    "SELECT * FROM tops",
    "SELECT * FROM f",
    "SELECT reason FROM dead(f)",
    "SELECT ts FROM late(s)",
    "SELECT * FROM names",
)

#: Which files, by their place in the pond.
FILES = (
    "pond.json", "fence.json", "catalog/events.jsonl", "catalog/register.jsonl", "catalog/v*.json",
    "catalog/boxes/*/*", "published/*.json", "manifests/*.json", "backfills/*.json", "mendings/*.json",
    "intake/s-*/intake.jsonl", "intake/f-*/intake.jsonl", "intake/tops-*/intake.jsonl",
    "intake/*/landing/*.arrow", "intake/*/derived/*.arrow",
    "streams/s-*/_delta_log/*.json", "streams/s-*/_delta_log/*.parquet", "streams/s-*/_delta_log/_last_checkpoint",
    "streams/s-*/*.parquet", "streams/tops-*/*.parquet",
    "copies/*/*/_delta_log/*.json", "copies/*/*/*.parquet", "dead/f-*/_delta_log/*.json", "dead/f-*/*.parquet",
    "state/_delta_log/*.json", "state/_delta_log/*.parquet", "state/*.parquet",
    "results/_delta_log/*.json", "results/*.parquet", "summaries/_delta_log/*.json", "summaries/*.parquet",
    "tables/*/*.arrow", "tables/*/state.json", "functions/*", "plans.jsonl",
)  # fmt: skip


def odd(value: int) -> bool:
    return value % 2 == 1


def big(value: int) -> bool:
    return value > 10


def rows(start: int, count: int = 20) -> list[dict[str, Any]]:
    rng = random.Random(start)
    return [
        {"ts": START + dt.timedelta(seconds=start + n * 0.4), "k": rng.choice("ab"), "v": rng.randrange(100)}
        for n in range(count)
    ]


def opened(path: Path) -> Any:
    return millpond.open(str(path), executor="inline", clock=VirtualClock(), shards=2)


def make(work: Path) -> Path:
    """A closed pond with every kind of file, in the middle of an epoch."""
    (work / "names.csv").write_text("k,name\na,A\nb,B\n")
    (work / "a.ndjson").write_text('{"ts": "2026-01-01 00:00:05", "k": "a", "v": 1}\n{"ts": "never"}\n')
    with opened(work / "pond") as pond:
        for function in (odd, big):
            pond.register_function(function.__name__, function, arguments=["BIGINT"])
        pond.sql(SCRIPT.format(work=work))
        for start in range(0, 40, 10):
            pond.ingest("s", rows(start))
            pond.drain()
        pond.ingest("s", rows(0, 2))  # late
        while not pond._core.mendings.finished():
            pond.step()
        pond.sql("ALTER QUERY mended PAUSE")  # what was recomputed for it waits
        pond.sql("CREATE QUERY later WITH (since='start') AS SELECT min(v) AS v FROM s [RANGE TUMBLING 10 SECONDS]")
        pond.ingest("s", rows(40))
        pond.step()
        pond.sql("ALTER QUERY mended RESUME")
        pond.ingest("s", rows(50))
        assert begin_epoch(pond._core)
        pond.ingest("s", rows(60))
    return work / "pond"


@dataclass
class Told:
    """What a pond said: answers by question, and errors."""

    answers: dict[str, Any]
    errors: list[BaseException]

    def ask(self, what: str, question: Any) -> None:
        """Answer, or error."""
        try:
            found = question()
        except Exception as error:
            self.errors.append(error)
        else:
            self.answers[what] = found


def live(path: Path) -> Told:
    """Open a pond, ask everything, let more come, and ask everything again."""
    told = Told({}, [])
    try:
        pond = opened(path)
    except Exception as error:
        return Told({}, [error])
    try:
        ask_all(pond, "first", told)
        told.ask("ingest", lambda: pond.ingest("s", rows(70)))
        told.ask("drain", lambda: str(pond.drain()))
        told.ask("upkeep", pond.maintain)
        ask_all(pond, "then", told)
    finally:
        told.ask("close", pond.close)
    return told


def ask_all(pond: Any, when: str, told: Told) -> None:
    for question in ASKED:
        told.ask(f"{when}: {question}", lambda q=question: sorted(map(repr, pond.sql(q).table.to_pylist())))


@pytest.fixture(scope="module")
def made() -> Iterator[tuple[Path, Told]]:
    """The pond, and what it says undamaged."""
    patch = pytest.MonkeyPatch()
    with quick_folder() as work:
        patch.setattr(delta_log, "CHECKPOINT_EVERY", 4)
        path = make(Path(work))
        told = live(shutil.copytree(path, path.parent / "undamaged"))
        assert not told.errors and all(told.answers[f"then: {question}"] for question in ASKED)
        yield path, told
        patch.undo()


def changed(data: bytes, at: int, rng: random.Random) -> bytes:
    """One bit of a byte is another one."""
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


WAYS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "empty": lambda data, rng: b"",
    "half": lambda data, rng: data[: len(data) // 2],
    "longer": lambda data, rng: data + b"garbage!" * 3,
    "first byte": lambda data, rng: changed(data, 0, rng),
    "some byte": lambda data, rng: changed(data, rng.randrange(len(data)), rng),
    "last byte": lambda data, rng: changed(data, len(data) - 1, rng),
}
CASES = [(name, how) for name in FILES for how in WAYS]


@pytest.mark.parametrize(("name", "how"), some(CASES, 12, "damaged files"))
def test_a_damaged_file_is_named_or_makes_no_difference(made: tuple[Path, Told], name: str, how: str) -> None:
    path, expected = made
    rng = random.Random(f"{SEED} {name} {how}")
    file = rng.choice(sorted(path.glob(name)))
    place = str(file.relative_to(path))
    with quick_folder() as work:
        copy = shutil.copytree(path, work / "pond")
        (copy / place).write_bytes(WAYS[how](file.read_bytes(), rng))
        told = live(copy)
    for error in told.errors:
        assert isinstance(error, millpond.MillpondError), (place, error)
        log = f"{Path(place).parent.parent.name}/_delta_log is damaged"  # its reader does not say which file
        assert place in str(error) or ("_delta_log" in place and log in str(error)), (place, str(error))
        assert "restore" in str(error), (place, str(error))
    for what, answer in told.answers.items():
        if not told.errors or what.startswith("first"):  # what came after an epoch that failed is not comparable
            assert answer == expected.answers[what], (place, what)
