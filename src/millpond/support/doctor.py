"""What this machine has of what Millpond needs, and how to mend what is missing.

    >>> [check.name for check in diagnose()][:2]
    ['Python', 'Java']

`find_java` is also how the engine chooses the Java that Spark runs on.
"""

from __future__ import annotations

import importlib.metadata
import locale
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psutil

if TYPE_CHECKING:
    from rich.console import Console

Status = Literal["ok", "warn", "bad"]

#: Oldest Java that Spark 4 runs on.
JAVA_MINIMUM = 17

#: Package → (at least, below); the ranges of pyproject.toml, which a test holds to be the same.
REQUIRED: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "pyspark": ((4, 3), (4, 4)),
    "pyarrow": ((26,), (27,)),
    "duckdb": ((2, 0), (3,)),
    "deltalake": ((1, 6), (2,)),
    "sqlglot": ((30, 30), (31,)),
    "pandas": ((2, 2), (3,)),
    "numpy": ((2,), (3,)),
}

_GIB = 1 << 30
# Longest path of a Unix domain socket on Linux is 108 bytes; Spark puts a UUID behind its folder.
_SOCKET_FOLDER_LIMIT = 60
_COLOURS = {"ok": "green", "warn": "yellow", "bad": "red"}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what was found, whether it will do, and how to mend it when it will not.

    `warn` means that Millpond works, but slower or with a risk; `bad` means that it does not work.
    """

    name: str
    status: Status
    found: str
    mend: str = ""


def diagnose(pond: str | os.PathLike[str] | None = None) -> list[Check]:
    """Look at everything Millpond needs.

    Arguments:
        pond: where a pond lies or is to lie (need not exist yet); default: the current folder. Disk and fsync are
            measured there.
    Returns: the checks in a fixed order; it never raises because of what it finds.
    """
    folder = _nearest_folder(Path(pond) if pond is not None else Path.cwd())
    return [
        _python(),
        _java(),
        *(_package(name) for name in REQUIRED),
        _spark_home(),
        _spark_python(),
        _host_name(),
        _cores(),
        _memory(),
        _disk(folder),
        _fsync(folder),
        _sockets(),
        _locale(),
    ]


def render(checks: list[Check], console: Console) -> None:
    """Print the checks as a table, what to mend below it, and one closing line."""
    from rich.table import Table  # here, because the engine uses `find_java` and needs nothing to draw with

    table = Table(box=None, pad_edge=False, show_header=False)
    for check in checks:
        table.add_row(f"[{_COLOURS[check.status]}]{check.status}[/]", check.name, check.found)
    console.print(table)
    for check in checks:
        if check.mend:
            console.print(f"[{_COLOURS[check.status]}]{check.name}[/]: {check.mend}", highlight=False, soft_wrap=True)
    bad = sum(check.status == "bad" for check in checks)
    warned = sum(check.status == "warn" for check in checks)
    if bad:
        console.print(f"[red]{bad} to mend before Millpond can run[/]" + (f", {warned} to look at" if warned else ""))
    else:
        console.print("[green]ready[/]" + (f", {warned} to look at" if warned else ""))


def find_java() -> str | None:
    """The home of a Java that Spark can run on: JAVA_HOME, else the one on PATH, else where systems put it.

    Returns: a folder to set JAVA_HOME to, or None when there is no Java of at least version 17.
    """
    return next((home for home in _java_homes() if (java_version(home) or 0) >= JAVA_MINIMUM), None)


def java_version(home: str | os.PathLike[str]) -> int | None:
    """The major version of the Java in that folder (8 for `1.8.0_302`), or None when there is none that runs."""
    java = Path(home, "bin", "java")
    if not os.access(java, os.X_OK):
        return None
    # Starting a JVM takes a tenth of a second; most homes carry a file that says the version.
    release = Path(home, "release")
    text = release.read_text(errors="replace") if release.is_file() else ""
    found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    if found is None:
        try:
            run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        found = re.search(r'version "([^"]+)"', run.stderr + run.stdout)
    return parse_java_version(found.group(1)) if found else None


def parse_java_version(text: str) -> int | None:
    """The major version in Java's own notation.

    >>> parse_java_version("17.0.15"), parse_java_version("1.8.0_302"), parse_java_version("26-ea")
    (17, 8, 26)
    """
    numbers = re.match(r"(\d+)(?:\.(\d+))?", text)
    if numbers is None:
        return None
    major = int(numbers.group(1))
    return int(numbers.group(2)) if major == 1 and numbers.group(2) else major


def _java_homes() -> Iterator[str]:
    if home := os.environ.get("JAVA_HOME"):
        yield home
    # On macOS /usr/bin/java is a stub without a home around it; `java_version` then sees no `bin/java` that runs.
    if java := shutil.which("java"):
        yield str(Path(java).resolve().parent.parent)
    for pattern in (
        "/usr/lib/jvm/*",
        "/usr/local/openjdk-*",
        "/opt/java/*",
        "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
        "/Library/Java/JavaVirtualMachines/*/Contents/Home",
        str(Path.home() / ".sdkman/candidates/java/current"),
    ):
        yield from sorted(str(path) for path in Path("/").glob(pattern.lstrip("/")))


def java_help() -> str:
    """What to type to get a Java that will do, for this kind of system."""
    if shutil.which("apt-get"):
        sudo = "" if os.geteuid() == 0 else "sudo "
        return (
            f"{sudo}apt-get install openjdk-17-jre-headless "
            f"(where that name does not exist: {sudo}apt-get install default-jre-headless)"
        )
    if sys.platform == "darwin":
        return "brew install openjdk@21"
    return "install a JRE of version 17 or newer and set JAVA_HOME to its folder"


def _python() -> Check:
    # Older ones are refused by the installer already: there is nothing to be bad here.
    return Check("Python", "ok", f"{'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}")


def _java() -> Check:
    wanted = os.environ.get("JAVA_HOME")
    home = find_java()
    if home is None:
        seen = [f"{h} ({java_version(h)})" for h in _java_homes() if java_version(h)]
        return Check("Java", "bad", f"too old: {', '.join(seen)}" if seen else "none", java_help())
    found = f"{java_version(home)} at {home}"
    if wanted and wanted != home:
        return Check("Java", "warn", found, f"JAVA_HOME={wanted} is no Java of version 17 or newer: unset or change it")
    return Check("Java", "ok", found)


def _package(name: str) -> Check:
    least, below = REQUIRED[name]
    wanted = f"{name}>={_dotted(least)},<{_dotted(below)}"
    mend = f"{sys.executable} -m pip install '{wanted}'"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Check(name, "bad", "not installed", mend)
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    return Check(name, "ok", version) if least <= numbers < below else Check(name, "bad", version, mend)


def _spark_home() -> Check:
    home = os.environ.get("SPARK_HOME")
    if not home:
        return Check("Spark", "ok", "the one inside PySpark")
    jars = sorted(path.name for path in Path(home, "jars").glob("spark-core_*.jar"))
    found = f"SPARK_HOME={home} ({jars[0] if jars else 'no Spark there'})"
    version = re.search(r"-(\d+)\.(\d+)", jars[0]) if jars else None
    if version and tuple(map(int, version.groups())) == REQUIRED["pyspark"][0]:
        return Check("Spark", "ok", found)
    return Check("Spark", "bad", found, f"unset SPARK_HOME, or let it name a Spark {_dotted(REQUIRED['pyspark'][0])}")


def _spark_python() -> Check:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        chosen = os.environ.get(name)
        # Not resolved: a virtual environment's interpreter is a link to one that lacks its packages.
        path = shutil.which(chosen) if chosen else None
        if chosen and (path is None or os.path.abspath(path) != os.path.abspath(sys.executable)):
            return Check("Spark's Python", "warn", f"{name}={chosen}", f"unset {name}: it is not {sys.executable}")
    return Check("Spark's Python", "ok", sys.executable)


def _host_name() -> Check:
    name = socket.gethostname()
    if os.environ.get("SPARK_LOCAL_IP"):
        return Check("host name", "ok", f"{name}, SPARK_LOCAL_IP={os.environ['SPARK_LOCAL_IP']}")
    try:
        return Check("host name", "ok", f"{name} is {socket.gethostbyname(name)}")
    except OSError:
        return Check("host name", "warn", f"{name} has no address", "export SPARK_LOCAL_IP=127.0.0.1")


def _cores() -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores < 2:
        return Check("cores", "warn", "1", "with a second core, queries of the past do not hold up live epochs")
    return Check("cores", "ok", str(cores))


def _memory() -> Check:
    memory = psutil.virtual_memory()
    total, free = memory.total, memory.available
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text().strip()).isdigit():
        total, free = min(total, int(text)), min(free, int(text))
    found = f"{total / _GIB:.1f} GiB, {free / _GIB:.1f} GiB free"
    if total < 2 * _GIB:
        return Check("memory", "bad", found, "Spark and its workers need 2 GiB")
    if free < 2 * _GIB:
        return Check("memory", "warn", found, "free 2 GiB, or expect smaller epochs and swapping")
    return Check("memory", "ok", found)


def _disk(folder: Path) -> Check:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check("disk", "bad", f"{folder}: {error.strerror}", "choose another folder for the pond")
    found = f"{free / _GIB:.1f} GiB free at {folder}"
    if free < _GIB // 2:
        return Check("disk", "bad", found, "free some space, or put the pond elsewhere")
    if free < 5 * _GIB:
        return Check("disk", "warn", found, "archives grow with their streams: set a retention, or move the pond")
    return Check("disk", "ok", found)


def _fsync(folder: Path) -> Check:
    times = []
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".millpond-doctor-") as file:
            for _ in range(5):
                file.write(b"\0" * 4096)
                file.flush()
                start = time.perf_counter()
                os.fsync(file.fileno())
                times.append(time.perf_counter() - start)
    except OSError as error:
        return Check("fsync", "bad", f"{folder}: {error.strerror}", "the pond's folder must be writable")
    median = statistics.median(times) * 1000
    if median > 25:
        return Check(
            "fsync", "warn", f"{median:.1f} ms", "every commit waits for some of these: put the pond on a faster disk"
        )
    return Check("fsync", "ok", f"{median:.1f} ms")


def _sockets() -> Check:
    name = "Unix sockets"
    mend = "Spark's Python tasks then go over TCP, which costs tens of milliseconds each: "
    try:
        with tempfile.TemporaryDirectory(prefix="millpond-") as folder, socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.join(folder, "s"))
    except (AttributeError, OSError) as error:
        return Check(name, "warn", f"not to be had: {error}", mend + "let TMPDIR name a folder on a local disk")
    if len(tempfile.gettempdir()) > _SOCKET_FOLDER_LIMIT:
        return Check(name, "warn", f"{tempfile.gettempdir()} is a long path", mend + "let TMPDIR name a shorter one")
    return Check(name, "ok", "work")


def _locale() -> Check:
    encoding = locale.getpreferredencoding(False)
    if encoding.upper().replace("-", "") != "UTF8":
        return Check("locale", "warn", encoding, "export LC_ALL=C.UTF-8, so that text files are read as UTF-8")
    return Check("locale", "ok", encoding)


def _nearest_folder(path: Path) -> Path:
    path = path.absolute()
    return next((p for p in (path, *path.parents) if p.is_dir()), Path("/"))


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
