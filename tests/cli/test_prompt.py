"""The interactive prompt: typed into a pipe, over a pond of this process and over a server."""

from __future__ import annotations

import ast
import importlib
import io
import os
import re
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console
from typer.testing import CliRunner

import millpond
from millpond.cli import prompt as prompts
from millpond.cli import waiting
from millpond.cli.app import app
from millpond.cli.completion import SqlCompleter
from millpond.cli.fitting import show_rows
from millpond.cli.names import Names
from millpond.cli.output import Format
from millpond.cli.prompt import HELP, Prompt, kept_history
from millpond.cli.typed import KEYWORDS, command_of, in_quiet, is_complete, quoted, statement_at, words_of
from millpond.cli.waiting import Worker
from millpond.server.serve import serving
from tests.cli.fakes import FakePond

SCRIPT = """
CREATE STREAM reading (ts TIMESTAMP, sensor TEXT, mph DOUBLE) WITH (event_time='ts');
CREATE QUERY per_minute AS SELECT sensor, avg(mph) AS typical FROM reading [RANGE TUMBLING 1 MINUTE] GROUP BY sensor;
CREATE QUERY fast AS SELECT ts, sensor, mph FROM reading WHERE mph > 60;
"""
ROWS = [{"ts": f"2026-01-01 08:00:{s:02}", "sensor": f"s{s % 3}", "mph": float(s * 3)} for s in range(30)]
CTRL_C, CTRL_D, UP = "\x03", "\x04", "\x1b[A"


@pytest.fixture(params=["local", "server"])
def pond(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with millpond.open(tmp_path / "pond", executor="inline") as opened:
        opened.sql(SCRIPT)
        opened.ingest("reading", ROWS)
        opened.drain()
        if request.param == "local":
            yield opened
            return
        with serving(opened) as url, millpond.connect(url) as remote:
            yield remote


def typed(pond: Any, text: str, width: int = 100, form: Format = Format.table, **more: Any) -> str:
    """What the prompt shows when this is typed at it."""
    shown = io.StringIO()
    with create_pipe_input() as source:
        source.send_text(text)
        Prompt(pond, form, Console(file=shown, width=width), source=source, screen=DummyOutput(), **more).run()
    return shown.getvalue()


def test_statements_of_several_lines(pond: Any) -> None:
    shown = typed(pond, "SELECT sensor, -- a remark;\n max(mph) AS top\nFROM reading\nGROUP BY sensor;\n\\q\n")
    assert re.search(r"s2 *│ *87", shown) and "3 rows" in shown


def test_it_ends_with_ctrl_d_and_with_plain_words(pond: Any) -> None:
    assert typed(pond, CTRL_D) == ""
    assert typed(pond, "quit\nSELECT 1;\n") == ""


def test_ctrl_c_cancels_what_is_typed(pond: Any) -> None:
    shown = typed(pond, f"SELECT 1 AS wrong\n{CTRL_C}SELECT 2 AS good;\n\\q\n")
    assert "good" in shown and "wrong" not in shown


def test_errors_show_the_place_and_the_prompt_goes_on(pond: Any) -> None:
    shown = typed(pond, "SELECT mhp FROM reading;\nINVOKE nothing;\nSELECT 'still here' AS a;\n\\q\n")
    assert "error: line 1, column 8: there is no column 'mhp'" in shown
    assert "  SELECT mhp FROM reading;\n         ^^^" in shown and "did you mean 'mph'?" in shown
    assert "there is no query 'nothing'" in shown and "still here" in shown


def test_describe(pond: Any) -> None:
    shown = typed(pond, "\\d\n\\d reading\n\\d fast;\n\\d PER_MINUTE\n\\d none\n\\q\n", width=200)
    assert re.search(r"reading +stream", shown) and re.search(r"fast +query", shown)
    assert re.search(r"mph +DOUBLE", shown) and "high watermark: 2026-01-01 08:00:29" in shown
    assert "declared as: CREATE STREAM reading" in shown and "marks_groups" not in shown
    assert "kind: rows" in shown and "kind: windows" in shown and "window_end" in shown
    assert "error: there is no 'none'" in shown


def test_a_file(pond: Any, tmp_path: Path) -> None:
    file = tmp_path / "a script.sql"
    file.write_text("INVOKE fast;\nSELECT wrong;")
    (tmp_path / "b").write_bytes(b"\xff")
    shown = typed(pond, f"\\i {file}\n\\i {tmp_path}/none\n\\i {tmp_path}/b\n\\i\n\\q\n")
    assert "9 rows" in shown and "line 2, column 8" in shown
    assert "No such file" in shown and "not UTF-8" in shown and "\\i FILE" in shown


def test_switches_and_help(pond: Any) -> None:
    shown = typed(
        pond,
        "\\timing\nSELECT 1;\n\\timing off\n\\x on\n\\x some\n\\rows 0\n\\rows 2\nINVOKE fast;\n\\?\n\\nope\n\\q\n",
    )
    assert re.search(r"time: [\d.]+ ms", shown) and shown.count("time:") == 1
    assert "records: on" in shown and "[ 2 ]" in shown and "[ 3 ]" not in shown
    assert "9 rows, 2 shown: \\rows 9 shows all" in shown
    assert all(name in shown for name in HELP) and "there is no command \\nope" in shown


def test_it_tells_what_somebody_should_look_at(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as opened:
        opened.sql(SCRIPT)
        tell = opened.teller()
        opened.ingest("reading", [{"ts": None, "mph": 1.0}])
        opened.step()
        shown = typed(opened, "SELECT 1;\nDRAIN;\n\\q\n", width=300, news=lambda: tell(False).problems)
    line = "reading: 1 dead letter: event time 'ts' is NULL (1 time; first: ingest 0, record 0)"
    assert shown.count(line) == 2  # once after a statement, once by DRAIN, which tells for itself


def test_json(pond: Any) -> None:
    assert '{"n":30}\n' in typed(pond, "SELECT count(*) AS n FROM reading;\n\\q\n", form=Format.json)


def test_changes_show_in_completion(pond: Any) -> None:
    with create_app_session():
        names = Names(pond)
        names.refresh(wait=True)
        assert names.kinds == {"reading": "stream", "per_minute": "query", "fast": "query"}
        pond.sql("CREATE QUERY other AS SELECT mph FROM reading")
        pond.register("SELECT mph FROM reading WHERE mph < 1")
        names.changed()
        names.refresh(wait=True)
        assert names.kinds["other"] == "query" and len(names.kinds) == 4


def offered(pond: Any, before: str, after: str = "") -> list[str]:
    """What Tab offers."""
    names = Names(pond)
    names.refresh(wait=True)
    document = Document(before + after, len(before))
    return [c.text for c in SqlCompleter(names, HELP).get_completions(document, CompleteEvent())]


def test_completion(pond: Any) -> None:
    assert offered(pond, "SEL") == ["SELECT"] and offered(pond, "sel") == ["select"]
    assert offered(pond, "SELECT * FROM r") == ["reading"]
    assert offered(pond, "SELECT 1; INVOKE ") == ["fast", "per_minute"]
    assert offered(pond, "DROP STREAM ") == ["reading"]
    assert offered(pond, "SELECT s", " FROM reading")[0] == "sensor"
    assert offered(pond, "SELECT r.m", " FROM reading AS r") == ["mph"]
    assert offered(pond, "SELECT med")[-1] == "median("
    assert offered(pond, "SELECT typ", " FROM per_minute")[0] == "typical"
    assert offered(pond, "SELECT 'sel") == [] == offered(pond, "-- sel")
    assert offered(pond, "\\ti") == ["\\timing"]
    assert offered(pond, "\\d rea") == ["reading"] and offered(pond, "\\follow ") == ["fast", "per_minute"]


def test_completion_of_options(pond: Any) -> None:
    assert offered(pond, "CREATE QUERY q WITH (flu") == ["flush", "flush_delay", "flush_windows"]
    assert offered(pond, "CREATE QUERY q WITH (since = 'start', flush = ") == ["'at once'", "'lazy'", "'slow'"]
    assert offered(pond, "CREATE QUERY q AS SELECT mph FROM reading WITH (mat") == ["materialize"]
    assert "lateness" in offered(pond, "CREATE STREAM s (ts TIMESTAMP, v INT) WITH (")
    assert offered(pond, "CREATE STREAM s WITH (rev") == ["revise_for", "revisions"]
    assert offered(pond, "CREATE TABLE t (a INT) WITH (rel") == ["reload"]
    assert offered(pond, "CREATE TABLE t (a INT) WITH (header = t") == ["true"]
    assert "shards" not in (settings := offered(pond, "ALTER SYSTEM SET ")) and "target" in settings
    assert offered(pond, "ALTER SYSTEM SET (target = 1, sta") == ["statistics"]
    assert offered(pond, "ALTER STREAM reading SET (") == ["missing", "retention", "archive"]
    assert offered(pond, 'ALTER QUERY "fast" SET ear') == ["early"]
    assert offered(pond, "CREATE STREAM s (ts TIMESTAMP, SEL") == ["SELECT"]
    assert offered(pond, "WITH (SEL") == ["SELECT"]


def test_tab_completes(pond: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # What the pond has is looked up in the background: at a prompt that is fed faster than anybody types, wait for it.
    refresh = Names.refresh
    monkeypatch.setattr(Names, "refresh", lambda names, wait=False: refresh(names, wait=True))
    shown = io.StringIO()
    with create_pipe_input() as source:
        prompt = Prompt(pond, console=Console(file=shown, width=80), source=source, screen=DummyOutput())
        line = prompt._session.default_buffer
        steps = [
            ("INVOKE fa", lambda: line.text == "INVOKE fa"),
            ("\t", lambda: line.text == "INVOKE fast"),
            (";\n", lambda: "9 rows" in shown.getvalue()),
            ("\\q\n", lambda: True),
        ]
        thread = threading.Thread(target=_one_after_the_other, args=(source, steps))
        thread.start()
        prompt.run()
        thread.join()
    assert "9 rows" in shown.getvalue()


def _one_after_the_other(source: Any, steps: list[tuple[str, Callable[[], bool]]]) -> None:
    """Type each text when the one before has done what it should."""
    for text, done in steps:
        source.send_text(text)
        until = time.monotonic() + 120
        while not done() and time.monotonic() < until:
            time.sleep(0.01)


@contextmanager
def interrupted(after: Callable[[], bool]) -> Iterator[None]:
    """Ctrl-C for this process as soon as `after` holds."""
    over = threading.Event()

    def press() -> None:
        while not over.wait(0.02):
            if after():
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                return

    # A process that was started in the background may have been told to ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGINT, before)


class Slow(FakePond):
    """A pond whose statements take for ever."""

    waits = 0
    over = threading.Event()

    def run(self, script: str) -> Iterator[Any]:
        """Wait, or answer."""
        if "wait" in script:
            self.waits += 1
            self.over.wait(300)
        yield from super().run("rows")


def test_ctrl_c_ends_the_wait_for_a_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pond = Slow(tmp_path)
    left: list[str] = []
    monkeypatch.setattr(prompts.atexit, "register", lambda leave: left.append(leave.__name__))
    with interrupted(lambda: pond.waits == 1):
        shown = typed(pond, "wait;\nrows;\n\\q\n")
    assert "stopped waiting" in shown and "2 rows" in shown and left == ["_leave"]
    pond.over.set()


def test_watch_repeats_until_ctrl_c(tmp_path: Path) -> None:
    pond = Slow(tmp_path)
    calls: list[str] = []
    pond.run = lambda script: calls.append(script) or FakePond.run(pond, "rows")  # type: ignore[method-assign,func-returns-value]  # counts
    with interrupted(lambda: len(calls) >= 4):  # three of them have been shown by then
        shown = typed(pond, "\\watch\nrows;\n\\watch 0.05\n\\watch x\n\\q\n")
    assert shown.count("2 rows") >= 3 and "no statement yet" in shown and "takes seconds" in shown


def test_follow_goes_on_from_a_cursor(pond: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "_PATIENCE", 0.1)
    shown = Console(file=io.StringIO(), width=80)
    followed: list[float] = []
    subscribe = pond.subscribe

    def noted(*arguments: Any, **more: Any) -> Any:
        followed.append(time.monotonic())
        return subscribe(*arguments, **more)

    monkeypatch.setattr(pond, "subscribe", noted)

    def follow(command: str, patience: float) -> str:
        """What is shown until Ctrl-C, which comes when there are rows, or so many seconds after it has begun."""
        shown.file = io.StringIO()
        followed.clear()
        with create_pipe_input() as source:
            source.send_text(f"{command}\n\\q\n")
            with interrupted(
                lambda: "row" in shown.file.getvalue() or (bool(followed) and time.monotonic() - followed[0] > patience)
            ):
                Prompt(pond, console=shown, source=source, screen=DummyOutput()).run()
        return str(shown.file.getvalue())

    first = follow("\\follow fast", 60)
    assert "9 rows" in first
    found = re.search(r"\\follow fast (\d+:\d+:\d+) goes on", first)
    assert found
    assert "row" not in follow(f"\\follow fast {found[1]}", 1).replace("goes on from here", "")
    assert "error: there is no query 'gone'" in typed(pond, "\\follow gone\n\\follow\n\\q\n")


def test_what_is_given_up_is_not_heard_of_again() -> None:
    worker, given = Worker(), []
    go = threading.Event()

    def produce() -> Iterator[int]:
        yield 1
        go.wait(300)
        given.append("second")
        yield 2

    results = worker.results(produce)
    assert next(results) == 1
    results.close()
    assert list(worker.results(lambda: iter("ab"))) == ["a", "b"]
    go.set()
    with pytest.raises(ZeroDivisionError):
        list(worker.results(lambda: iter([1 // 0])))


def test_history_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "state" / "millpond" / "history"
    before = os.umask(0)
    try:
        history, note = kept_history()
    finally:
        os.umask(before)
    assert note == "" and stat.S_IMODE(file.stat().st_mode) == 0o600
    typed(FakePond(tmp_path), "rows one;\n\\q\n", history=history)
    assert "rows one;" in file.read_text() and stat.S_IMODE(file.stat().st_mode) == 0o600
    again, _ = kept_history()
    shown = typed(FakePond(tmp_path), f"{UP}{UP}\n\\q\n", history=again)
    assert "2 rows" in shown
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert "there is no history" in kept_history()[1]


def test_wide_answers_are_records() -> None:
    def shown(table: pa.Table, width: int) -> str:
        console = Console(file=io.StringIO(), width=width)
        show_rows(table, console, 10)
        return str(console.file.getvalue())  # type: ignore[attr-defined]  # the kind that the test made

    wide = pa.table({f"column{i}": ["some text of it", None] for i in range(20)})
    records = shown(wide, 80)
    assert "[ 1 ]" in records and "[ 2 ]" in records and "column19" in records and "NULL" in records
    assert max(map(len, records.splitlines())) <= 80
    assert "[ 1 ]" not in shown(wide, 500)
    long = shown(pa.table({"a": ["x" * 300], "b": [1]}), 60)
    assert "[ 1 ]" not in long and long.count("x") == 300 and max(map(len, long.splitlines())) <= 60
    assert "1 row" in show_rows(pa.table({"a": [1]}), Console(file=io.StringIO()), 10)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("  ", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- later;", True),
        ("SELECT ';'", False),
        ("SELECT ';", False),
        ("SELECT 'it''s;", False),
        ('SELECT ";" FROM a;', True),
        ("SELECT /* ; ", False),
        ("/* ; */ SELECT 1", False),
        ("-- only a remark", True),
        ("\\d", True),
        ("exit", True),
        ("exits", False),
    ],
)
def test_where_a_statement_ends(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_reading_what_is_typed() -> None:
    assert command_of("HELP ;") == "\\?" and command_of("help me;") is None
    assert in_quiet("a /* b") and in_quiet("a -- b") and not in_quiet("a -- b\n") and not in_quiet("a 'b'")
    assert statement_at("a; b ';' c; d", 5) == " b ';' c"
    assert words_of("a.b = 'c d' \"e f\" -- g") == ["a", "b", "e f"]
    assert quoted("select") == '"select"' and quoted('a"b') == '"a""b"' and quoted("größe") == "größe"
    assert quoted("kind") == "kind"


def test_every_word_that_statements_are_read_by_is_completed() -> None:
    """Words that readers of statements ask for: arguments of `take` and `expect`, and what a word is compared with."""
    asked: set[str] = set()
    clauses = ("dialect", "bounds_clause", "window_clause", "reduce_clause")
    for name in ("script", *(f"syntax.{clause}" for clause in clauses)):
        source = Path(importlib.import_module(f"millpond.language.{name}").__file__ or "").read_text()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                parts: list[Any] = node.args if node.func.attr in ("take", "expect") else []
            elif isinstance(node, ast.Compare):
                parts = node.comparators
            else:
                continue
            found = {c.value for part in parts for c in ast.walk(part) if isinstance(c, ast.Constant)}
            asked |= {w for text in found if isinstance(text, str) and text.isupper() for w in text.split()}
    assert {"PAUSE", "ARCHIVE", "EVERY", "REVISIONS"} <= asked
    # Spellings of papers that are understood, and words that are refused with what would work.
    others = {"SATTR", "ROW_NUM", "SEQ_NUM", "ROWNUM", "GROUPS", "PRECEDING", "FOLLOWING", "TIMESTAMPTZ",
              "PROGRESS"}  # fmt: skip
    assert {word for word in asked if word.isidentifier()} - others <= set(KEYWORDS)


def test_standard_input_is_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_EXECUTOR", "inline")
    done = CliRunner().invoke(app, ["sql", "--format", "csv"], input="SELECT 1 AS a; SELECT 2 AS b;\n")
    assert (done.exit_code, done.stdout) == (0, "a\n1\n\nb\n2\n")
    done = CliRunner().invoke(app, ["sql"], input="SELECT 1 AS a; SELECT;\n")
    assert done.exit_code == 2 and "line 1" in done.stderr


def test_a_server_in_place_of_a_folder(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as opened, serving(opened) as url:
        opened.sql(SCRIPT)
        run = CliRunner().invoke
        done = run(app, ["sql", "SELECT count(*) AS n FROM reading", "--url", url, "--format", "csv"])
        assert (done.exit_code, done.stdout) == (0, "n\n0\n")
        done = run(app, ["sql", "--format", "csv"], input="SELECT 1 AS a;", env={"MILLPOND_URL": url})
        assert (done.exit_code, done.stdout) == (0, "a\n1\n")
        done = run(app, ["sql", "SELECT wrong", "--url", url])
        assert done.exit_code == 2 and "line 1, column 8" in done.stderr
        assert run(app, ["sql", "SELECT 1", "--url", url, "--set", "shards=3"]).exit_code == 2
    done = run(app, ["sql", "SELECT 1", "--url", url])
    assert done.exit_code == 1 and "cannot be reached" in done.stderr


def test_ctrl_c_just_before_a_wait_is_not_lost() -> None:
    """A signal that comes between two looks is taken at the next one: the wait is never one for ever."""
    go = threading.Event()
    looks: list[float] = []

    class Counted(SimpleQueue):  # type: ignore[type-arg]  # of any
        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            assert timeout is not None, "a wait for ever can lose a signal"
            looks.append(timeout)
            if len(looks) > 3:
                raise KeyboardInterrupt
            return super().get(block, timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting.queue, "SimpleQueue", Counted)
        slow = Worker().results(lambda: iter([go.wait(300)]))
        with pytest.raises(KeyboardInterrupt):
            next(slow)
    assert len(looks) == 4 and max(looks) <= 1
    go.set()
