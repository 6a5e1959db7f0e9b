"""Fixtures for everybody: ponds without a JVM, ponds on the one Spark session of the run, hypothesis profiles.

`HYPOTHESIS_PROFILE` or `--hypothesis-profile` chooses `ci` (hundreds of cases in all, the default) or `deep` (ten times
as many per test, ten thousand and more of each kind of window; `HYPOTHESIS_EXAMPLES` sets how many examples a test has;
tests marked `deep` run, too: they repeat what others prove, at other moments or with more data).

Every run draws other cases. It says its seed at its beginning and, when a test fails, at its end; `MILLPOND_SEED`
repeats it.

Folders of tests lie in memory where the system has room for them, since fsync is most of what a small pond costs. A
killed process loses nothing there either: what the tests kill is processes, not machines.
"""

from __future__ import annotations

import gc
import os
import re
import secrets
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.scheduler.loadgroup import LoadGroupScheduling

_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]

# Without the phase that explains a failure, which runs the engine hundreds of times more.
_PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]
settings.register_profile(
    "ci",
    max_examples=10,
    deadline=None,
    suppress_health_check=_CHECKS,
    print_blob=True,
    phases=_PHASES,
)
settings.register_profile(
    "deep",
    max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "150")),
    deadline=None,
    suppress_health_check=_CHECKS,
    print_blob=True,
)
settings.register_profile(
    "smoke", max_examples=5, deadline=None, suppress_health_check=_CHECKS, phases=[Phase.generate]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

Factory = Callable[..., Any]


#: xdist's workers, and whatever else a test starts, have the seed of the run from the environment.
SEED = int(os.environ.setdefault("MILLPOND_SEED", str(secrets.randbelow(1 << 32))))

_MEMORY = "/dev/shm"
_ROOM = 3 << 30


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Temporary folders in memory, unless somebody says where; and cases of kinds of windows are counted.

    Hypothesis draws by the seed of the run, unless `--hypothesis-seed` says another.

    Compiled modules are kept: without them every process that a test starts (commands, servers, Spark's workers)
    compiles the whole package first, five seconds instead of two.
    """
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(SEED)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background jobs ignore Ctrl-C, and so would every process that a test starts and interrupts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if os.environ.get("MILLPOND_CASES_OF_A_KIND"):
        from tests.cases_of_kinds import Cases, count_ponds

        count_ponds()
        config.pluginmanager.register(Cases(config))
    if hasattr(config, "workerinput") or config.option.basetemp is not None:
        return
    if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
        config.option.basetemp = f"{_MEMORY}/millpond-tests-{os.getpid()}"


def _seed(config: pytest.Config) -> str:
    return f"seed: MILLPOND_SEED={config.option.hypothesis_seed}"


def pytest_report_header(config: pytest.Config) -> str:
    """The seed of the run."""
    return _seed(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The seed of a run in which something failed, where one looks for it."""
    if {"failed", "error"} & terminalreporter.stats.keys():
        terminalreporter.write_line(_seed(config))


def pytest_collection_finish() -> None:
    """Python does not look through modules and tests again and again for what nobody uses any more: they stay."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Memory is given back; what failed may be looked at."""
    folder = str(session.config.option.basetemp)
    if exitstatus == 0 and not hasattr(session.config, "workerinput") and folder.startswith(_MEMORY):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process more than there are cores: one or the other waits, for a JVM or a clock."""
    return (os.cpu_count() or 1) + 1


class _OneSpark(LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types
    """Tests that start Spark run in one process, one after the other, and so do benchmarks; the others anywhere.

    xdist's own groups travel in a private attribute that pytest 9.2 does not read any more, so the id must tell.
    """

    def _split_scope(self, nodeid: str) -> str:
        if "tests/bench/" in nodeid:
            return "bench"
        if _SPARK.search(nodeid):
            return "spark"
        # What these files share is dear to make: a run that nobody disturbs, a server.
        return nodeid.partition("::")[0] if _TOGETHER.search(nodeid) else nodeid


_TOGETHER = re.compile("crash|tests/server/|test_quarantine")
_SPARK = re.compile("spark|cluster|tests/bench/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The scheduler of `--dist loadgroup`."""
    return _OneSpark(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Soak tests run only where `-m` asks for them, deep ones with the profile `deep`."""
    soak = "soak" in (config.option.markexpr or "")
    skip = pytest.mark.skip(reason="a soak test: run it with -m soak")
    deep = os.environ.get("HYPOTHESIS_PROFILE") == "deep" or "deep" in (config.option.markexpr or "")
    repeats = pytest.mark.skip(reason="a repetition: run it with HYPOTHESIS_PROFILE=deep, or -m deep")
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}  # keywords also have the names of folders above
        if not deep and "deep" in marks:
            item.add_marker(repeats)
        if not soak and "soak" in marks:
            item.add_marker(skip)
        if {"spark", "cluster"} & marks and not _SPARK.search(item.nodeid):
            raise pytest.UsageError(f"{item.nodeid} starts Spark: 'spark' or 'cluster' must be in its name")


@pytest.fixture
def inline_pond(tmp_path: Path) -> Iterator[Factory]:
    """A factory of ponds without a JVM: `inline_pond()`, `inline_pond("name", clock=…)`; closed at the end."""
    yield from _ponds(tmp_path, "inline")


@pytest.fixture(scope="session")
def spark_session() -> Iterator[Any]:
    """The one Spark session of the run: ponds find it because it is the active one. Stopped at the very end."""
    # Spark's Python workers see the environment, not what pytest put on this process's path.
    source = str(Path(__file__).parent.parent / "src")
    paths = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([source, *filter(None, paths.split(os.pathsep))]))

    from millpond.engine.spark.executor import session

    spark = session(None)
    yield spark
    spark.stop()


@pytest.fixture
def spark_pond(tmp_path: Path, spark_session: Any) -> Iterator[Factory]:
    """A factory of ponds on the run's Spark session; closed at the end of the test, the session goes on."""
    yield from _ponds(tmp_path, "spark")


def _ponds(folder: Path, executor: str) -> Iterator[Factory]:
    import millpond

    opened: list[Any] = []

    def factory(name: str = "pond", **settings: Any) -> Any:
        pond = millpond.open(str(folder / name), executor=executor, **settings)
        opened.append(pond)
        return pond

    yield factory
    for pond in reversed(opened):
        pond.close()
