"""`millpond demo`: two months of real flights through standing window queries, with a live view.

The landing reports of `examples/flights` are put into a folder that the pond watches, a day at a time and in the order
of landing, as a feed would deliver them; each day is taken in before the next one comes. At the end the stream is
drained, and the answers are shown. The statements are those of `examples/flights/demo.sql`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from millpond.cli.output import rows_table
from millpond.cli.status import by_name, moment
from millpond.support.errors import PondError, SourceError

if TYPE_CHECKING:
    from millpond.api.pond import Pond

STREAM = "landings"
#: How demo.sql names the files; replaced by the folder that the demo fills.
WRITTEN_PATH = "examples/flights/landings/*.parquet"
DRAIN = "DRAIN FINAL;"
#: Months of departures in the example.
MONTHS = 2

_MARK = ".millpond-demo"
_HOURS_PER_FILE = 24
_REFRESH = 0.25
_LINE_EVERY = 2.0


def run_demo(
    folder: Path,
    months: int,
    speed: float,
    console: Console,
    executor: str = "spark",
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Run the demo and print what it does and finds.

    Arguments:
        folder: where its pond and its files go; an earlier demo there is removed first.
        months: how many of the two months to replay.
        speed: hours of landings a second; 0 for as fast as they are taken in.
        console: where to print; a live view when it is a terminal, lines otherwise.
        executor, settings: for `millpond.open`.
    Raises: PondError when the folder holds something else than a demo; SourceError when the example is not there.
    """
    import millpond

    example = example_folder()
    files = landing_files(example, months)
    incoming = fresh_folder(folder, console)
    setup, answers = split_script((example / "demo.sql").read_text(encoding="utf-8"), incoming)
    console.print(disorder(files), soft_wrap=True)
    with millpond.open(folder / "pond", executor=executor, **(settings or {})) as pond:
        for result in pond.run(setup):
            console.print(result.message, style="dim")
        await_spark(pond, console)
        replay = Replay(pond, files, incoming, speed)
        watch(replay, console)
        report(replay, console)
        for title, statement in answers:
            result = pond.sql(statement)
            console.print(f"\n[bold]{title}[/]", soft_wrap=True)
            console.print(rows_table(result.table))
    command = "millpond" if shutil.which("millpond") else f"{os.path.relpath(sys.executable)} -m millpond"
    console.print(
        f"\nThe pond lies in {folder / 'pond'}, its archive in Delta tables below it. Ask it more, for example:\n"
        f'  {command} sql "SELECT carrier, count(*) AS flights, avg(arr_delay) AS delay FROM {STREAM}'
        f' GROUP BY carrier ORDER BY delay" --pond {folder / "pond"}',
        soft_wrap=True,
    )


def await_spark(pond: Pond, console: Console) -> None:
    """Wait until epochs run, and say so."""
    began = time.monotonic()
    if pond.ready(0.1):
        return
    console.print("Spark is starting, which takes some seconds …", style="dim")
    pond.ready()
    console.print(f"Spark has started, in {time.monotonic() - began:.1f} s", style="dim")


class Replay(threading.Thread):
    """Delivers the files one after the other and has the pond take each in; then drains for good.

    `delivered` counts files; `seconds` is the time from the first delivery to the last committed answer.
    """

    def __init__(self, pond: Pond, files: list[Path], incoming: Path, speed: float) -> None:
        super().__init__(name="replay", daemon=True)
        self.pond, self.files, self.incoming, self.speed = pond, files, incoming, speed
        self.delivered = 0
        self.began = time.monotonic()
        self.seconds = 0.0
        self.failure: BaseException | None = None
        self._stop_asked = threading.Event()

    def run(self) -> None:
        """Deliver everything, until asked to stop."""
        try:
            for number, file in enumerate(self.files):
                if self.speed:
                    due = self.began + number * _HOURS_PER_FILE / self.speed
                    self._stop_asked.wait(max(0.0, due - time.monotonic()))
                if self._stop_asked.is_set():
                    return
                deliver(file, self.incoming)
                self.delivered += 1
                # Rows taken in together are never late for each other: without this, all files could be one epoch.
                self.pond.drain()
            self.pond.drain(final=True)
        except BaseException as failure:  # handed to the thread that watches
            self.failure = failure
        finally:
            self.seconds = time.monotonic() - self.began

    def stop(self) -> None:
        """Stop after the file at hand."""
        self._stop_asked.set()
        self.join(timeout=30)


def watch(replay: Replay, console: Console) -> None:
    """Show the replay until it has ended.

    Raises: what made the replay fail.
    """
    replay.start()
    try:
        if console.is_terminal:
            with Live(live_view(replay), console=console, refresh_per_second=1 / _REFRESH, transient=False) as live:
                while replay.is_alive():
                    replay.join(_REFRESH)
                    live.update(live_view(replay))
        else:
            while replay.is_alive():
                replay.join(_LINE_EVERY)
                console.print(status_line(replay), soft_wrap=True)
    except BaseException:
        replay.stop()
        raise
    if replay.failure is not None:
        raise replay.failure


def live_view(replay: Replay) -> Group:
    """The state of the replay, for a terminal."""
    state = replay.pond.status()
    stream = by_name(state["streams"]).get(STREAM, {})
    facts = Table.grid(padding=(0, 2))
    facts.add_row("landed", _file_name(replay), "watermark", moment(stream.get("watermark")))
    facts.add_row("rows", f"{stream.get('rows', 0):,}", "rows/s", f"{_rate(replay, stream):,.0f}")
    facts.add_row("late", f"{stream.get('late', 0):,}", "epochs", f"{state.get('epochs', 0):,}")
    queries = Table(box=None, pad_edge=False)
    queries.add_column("query")
    queries.add_column("answers", justify="right")
    queries.add_column("revised", justify="right")
    for name, query in by_name(state["queries"]).items():
        queries.add_row(name, f"{query.get('rows', 0):,}", f"{query.get('revisions', 0):,}")
    bar = ProgressBar(total=len(replay.files), completed=replay.delivered, width=60)
    return Group(bar, facts, queries)


def status_line(replay: Replay) -> str:
    """The state of the replay in one line."""
    state = replay.pond.status()
    stream = by_name(state["streams"]).get(STREAM, {})
    answers, revisions = totals(state)
    return (
        f"{time.monotonic() - replay.began:6.1f} s"
        f"  {stream.get('rows', 0):>7,} rows  {_rate(replay, stream):>7,.0f} rows/s"
        f"  watermark {moment(stream.get('watermark'))}  {answers:>7,} answers"
        f"  {stream.get('late', 0):>5,} late  {revisions:>6,} revised"
    )


def report(replay: Replay, console: Console) -> None:
    """Print what came of the replay: rows, answers, throughput."""
    state = replay.pond.status()
    stream = by_name(state["streams"]).get(STREAM, {})
    rows = int(stream.get("rows", 0))
    answers, revisions = totals(state)
    console.print(
        f"\n[bold]{rows:,} rows in {replay.seconds:.1f} s ({rows / max(replay.seconds, 1e-9):,.0f} rows/s)[/], "
        f"{state.get('epochs', 0):,} epochs, {answers:,} answers, "
        f"{stream.get('late', 0):,} late rows, {revisions:,} revised answers",
        soft_wrap=True,
    )
    pace = f"at {replay.speed:g} hours a second" if replay.speed else "each before the next came"
    note = f"(taken in day by day, {pace}: small epochs; `make bench` measures large ones)"
    console.print(note, style="dim", soft_wrap=True)


def totals(state: Mapping[str, Any]) -> tuple[int, int]:
    """Rows answered and rows revised, over all queries."""
    queries = by_name(state["queries"]).values()
    return sum(q.get("rows") or 0 for q in queries), sum(q.get("revisions") or 0 for q in queries)


def example_folder() -> Path:
    """The folder of the example: inside the installed package, or beside `src` in a working copy."""
    here = Path(__file__).resolve().parent.parent
    for folder in (here / "examples" / "flights", here.parent.parent / "examples" / "flights"):
        if (folder / "demo.sql").is_file():
            return folder
    raise SourceError("the example 'flights' is not there: run the demo from a complete copy of Millpond")


def landing_files(example: Path, months: int) -> list[Path]:
    """The files of landing reports of the first `months` months, in the order of landing."""
    files = sorted((example / "landings").glob("landings-*.parquet"))
    if not files:
        raise SourceError(f"no landing reports in {example / 'landings'}; make_landings.py makes them")
    # The last flights of a month land in the next one, which the last month of all keeps.
    names = sorted({_month(file) for file in files})
    return files if months >= MONTHS else [file for file in files if _month(file) in names[:months]]


def fresh_folder(folder: Path, console: Console) -> Path:
    """Make the demo's folder anew and return the one inside it that files are delivered to.

    Raises: PondError when the folder holds something that no demo made.
    """
    if folder.exists() and any(folder.iterdir()):
        if not (folder / _MARK).is_file():
            raise PondError(f"{folder} is not empty and was not made by a demo: choose another folder with --pond")
        console.print(f"removing the earlier demo in {folder}", style="dim")
        shutil.rmtree(folder)
    incoming = folder / STREAM
    incoming.mkdir(parents=True)
    (folder / _MARK).write_text("Made by `millpond demo`, which removes this folder when it runs again.\n")
    return incoming


def split_script(script: str, incoming: Path) -> tuple[str, list[tuple[str, str]]]:
    """What comes before the drain, reading from `incoming`; and the statements behind it, each with its comment."""
    setup, _, rest = script.partition(DRAIN)
    path = str(incoming.absolute() / "*.parquet").replace("'", "''")
    statements = []
    for part in filter(None, (part.strip() for part in rest.split(";"))):
        lines = part.splitlines()
        title = " ".join(line.lstrip("- ") for line in lines if line.startswith("--"))
        statements.append((title, "\n".join(line for line in lines if not line.startswith("--"))))
    return setup.replace(WRITTEN_PATH, path), statements


def disorder(files: list[Path]) -> str:
    """How far from the order of their event times the rows arrive, in one sentence."""
    columns = [pq.read_table(file, columns=["departed"])["departed"].to_numpy() for file in files]
    times = np.concatenate(columns).astype("int64")
    behind = np.maximum.accumulate(times) - times
    late = behind > 0
    return (
        f"{len(times):,} landing reports in {len(files)} files, in the order of landing; by the time of departure "
        f"{late.mean():.0%} are out of order, by up to {behind.max() / 3.6e9:.1f} hours"
    )


def deliver(file: Path, folder: Path) -> None:
    """Put a copy of the file into the folder at once: whoever watches the folder never sees a half of it."""
    beside = folder.parent / f"{file.name}.part"
    shutil.copyfile(file, beside)
    os.replace(beside, folder / file.name)


def _month(file: Path) -> str:
    found = re.search(r"\d{4}-\d{2}", file.name)
    return found.group() if found else ""


def _file_name(replay: Replay) -> str:
    number = max(0, replay.delivered - 1)
    return replay.files[number].stem.removeprefix("landings-")


def _rate(replay: Replay, stream: Mapping[str, Any]) -> float:
    rate = stream.get("rate")
    if rate is not None:
        return float(rate)
    return int(stream.get("rows", 0)) / max(time.monotonic() - replay.began, 1e-9)
