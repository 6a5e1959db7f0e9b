"""The interactive prompt: `millpond sql` on a terminal."""

from __future__ import annotations

import atexit
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output
from pygments.lexers.sql import SqlLexer
from rich.console import Console
from rich.text import Text

from millpond.cli.completion import SqlCompleter
from millpond.cli.describing import describe_name, list_names
from millpond.cli.fitting import Layout, show_rows
from millpond.cli.names import Names
from millpond.cli.output import Format, Writer
from millpond.cli.typed import command_of, is_complete
from millpond.cli.waiting import Worker
from millpond.support.errors import MillpondError

#: Rows of an answer that are shown unless `\rows` says otherwise.
ROWS: Final = 200
#: Seconds between two looks at whether the user still follows.
_PATIENCE: Final = 5.0

HELP: Final = {
    "\\?": "this list",
    "\\q": "leave; Ctrl-D does too",
    "\\d": "list streams, tables and queries; \\d NAME describes one",
    "\\i": "\\i FILE runs the statements of a file",
    "\\follow": "\\follow QUERY [CURSOR] [closed|final] shows answers as they are published, until Ctrl-C",
    "\\watch": "\\watch [SECONDS] repeats the last statements, until Ctrl-C",
    "\\timing": "\\timing [on|off] says how long statements take",
    "\\x": "\\x [on|off|auto] shows a record below the other; auto: where a table does not fit",
    "\\rows": "\\rows N shows so many rows of an answer",
}


class Prompt:
    """Reads statements and commands from a terminal, runs them, shows what they give.

    Arguments:
        pond: an open pond, or one of `millpond.connect`.
        form: how rows are written.
        console: where everything is shown; None: standard output.
        history: None: none is kept.
        news: what to look at has come up since it was last asked, line by line; None: nobody tells.
        source, screen: of tests; None: the terminal.
    """

    def __init__(
        self,
        pond: Any,
        form: Format = Format.table,
        console: Console | None = None,
        history: History | None = None,
        source: Input | None = None,
        screen: Output | None = None,
        news: Callable[[], list[str]] | None = None,
    ) -> None:
        self.pond, self.form, self._news = pond, form, news or list
        self.console = console or Console(highlight=False)
        self.names = Names(pond)
        self.timing, self.rows = False, ROWS
        self.layout: Layout = "auto"
        self._last = ""
        self._worker = Worker()
        self._session: PromptSession[str] = PromptSession(
            message="millpond> ",
            prompt_continuation=lambda width, line, soft: "...> ".rjust(width),
            multiline=Condition(lambda: not is_complete(get_app().current_buffer.text)),
            lexer=PygmentsLexer(SqlLexer),
            completer=SqlCompleter(self.names, HELP),
            complete_while_typing=False,
            complete_in_thread=True,
            history=history or InMemoryHistory(),
            enable_history_search=False,
            input=source,
            output=screen,
        )

    def run(self) -> None:
        """Read and run until `\\q` or Ctrl-D."""
        self.names.refresh()
        try:
            while self._step():
                continue
        finally:
            self.names.close()
            if not self._worker.close():
                atexit.register(_leave)

    def _step(self) -> bool:
        """Read and run one input; False: leave."""
        try:
            text = self._session.prompt()
        except KeyboardInterrupt:
            return True
        except EOFError:
            return False
        command = command_of(text)
        try:
            if command is not None:
                return self._command(command)
            self.execute(text)
        except KeyboardInterrupt:
            self.say("stopped waiting; what runs may still come to its end", "yellow")
        except MillpondError as error:
            self.say(f"error: {error}", "red")
        return True

    def say(self, text: str, style: str = "") -> None:
        """One line, or some, for the user."""
        self.console.print(Text(text, style=style), soft_wrap=True)

    # --- statements ---------------------------------------------------------------------------------------------------

    def execute(self, script: str) -> None:
        """Run a script and show its results as they come.

        Raises: MillpondError for a statement that fails, KeyboardInterrupt when the user stops waiting.
        """
        if not script.strip().rstrip(";").strip():
            return
        self._last = script
        start = time.perf_counter()
        changed = drained = False
        try:
            for result in self._worker.results(lambda: self.pond.run(script)):
                if result.table is not None:
                    self._show(result.table)
                if result.message:
                    self.say(result.message)
                drained = drained or result.report is not None
                changed = changed or result.table is None
        finally:
            if changed:
                self.names.changed()
        news = self._news()
        for line in () if drained else news:  # a drain has said so
            self.say(line, "yellow")
        if self.timing:
            self.say(f"time: {_duration(time.perf_counter() - start)}", "dim")

    def _show(self, table: Any) -> None:
        if self.form is not Format.table:
            Writer(self.form, self.console.file, sys.stderr).write(table)
            return
        self.say(show_rows(table, self.console, self.rows, self.layout), "dim")

    # --- commands -----------------------------------------------------------------------------------------------------

    def _command(self, text: str) -> bool:
        """Run a command; False: leave."""
        word, _, argument = text.partition(" ")
        argument = argument.strip().rstrip(";").strip()
        if word == "\\q":
            return False
        commands: dict[str, Callable[[str], None]] = {
            "\\?": self._help,
            "\\d": self._describe,
            "\\i": self._include,
            "\\follow": self._follow,
            "\\watch": self._watch,
            "\\timing": self._timing,
            "\\x": self._expanded,
            "\\rows": self._most,
        }
        if word not in commands:
            self.say(f"there is no command {word}; \\? lists them", "red")
            return True
        commands[word](argument)
        return True

    def _help(self, argument: str) -> None:
        self.say("Statements end with a semicolon and may take several lines; Tab completes, Ctrl-C cancels.")
        for name, what in HELP.items():
            self.say(f"  {name:<9} {what}")

    def _describe(self, argument: str) -> None:
        def work() -> Iterator[None]:
            if argument:
                describe_name(self.pond, argument.strip('"'), self.console)
            else:
                list_names(self.pond, self.console)
            yield None

        for _ in self._worker.results(work):
            continue

    def _include(self, argument: str) -> None:
        if not argument:
            self.say("\\i FILE runs the statements of a file", "red")
            return
        path = Path(argument).expanduser()
        try:
            script = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            self.say(f"{path} cannot be read: {reason}", "red")
            return
        self.execute(script)

    def _follow(self, argument: str) -> None:
        words = argument.split()
        status = words.pop().lower() if len(words) > 1 and words[-1].lower() in ("all", "closed", "final") else None
        if not 0 < len(words) < 3:
            self.say("\\follow QUERY [CURSOR] [closed|final] shows answers as they are published", "red")
            return
        name, cursor = words[0].strip('"'), words[1] if len(words) > 1 else None
        only = {} if status is None else {"status": status}
        stopped = threading.Event()

        def batches() -> Iterator[Any]:
            at = cursor
            while not stopped.is_set():
                for batch in self.pond.subscribe(name, since=at, timeout=_PATIENCE, **only):
                    at = str(batch.cursor)
                    yield batch

        try:
            for batch in self._worker.results(batches):
                self.say(f"epoch {batch.epoch}", "dim")
                self._show(batch.rows)
                cursor = str(batch.cursor)
        except KeyboardInterrupt:
            self.say(f"\\follow {name} {cursor} goes on from here" if cursor else "nothing came yet", "dim")
        finally:
            stopped.set()

    def _watch(self, argument: str) -> None:
        try:
            pause = float(argument or 2)
        except ValueError:
            pause = -1.0
        if not 0.05 <= pause <= 86_400:
            self.say("\\watch takes seconds, such as 2 or 0.5", "red")
            return
        if not self._last:
            self.say("there is no statement yet to repeat", "red")
            return
        try:
            while True:
                self.say(time.strftime("%H:%M:%S"), "dim")
                self.execute(self._last)
                time.sleep(pause)
        except KeyboardInterrupt:
            return

    def _timing(self, argument: str) -> None:
        self.timing = _switch(argument, not self.timing)
        self.say(f"timing is {'on' if self.timing else 'off'}")

    def _expanded(self, argument: str) -> None:
        layouts: dict[str, Layout] = {"on": "on", "off": "off", "auto": "auto", "": "auto"}
        layouts[""] = "on" if self.layout != "on" else "auto"
        if argument not in layouts:
            self.say("\\x on, \\x off or \\x auto", "red")
            return
        self.layout = layouts[argument]
        self.say(f"records: {self.layout}")

    def _most(self, argument: str) -> None:
        if not re.fullmatch(r"[1-9]\d{0,6}", argument):
            self.say("\\rows takes a number from 1 to 9,999,999", "red")
            return
        self.rows = int(argument)


def interact(pond: Any, greeting: str, form: Format, news: Callable[[], list[str]] | None = None) -> None:
    """Run the prompt on this terminal until the user leaves.

    Arguments:
        greeting: what is said at first. news: see `Prompt`.
    """
    # Spark's own handler would cancel the jobs of a running epoch.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        history, note = kept_history()
        prompt = Prompt(pond, form, history=history, news=news)
        prompt.say(greeting)
        if note:
            prompt.say(note, "yellow")
        prompt.run()
    finally:
        signal.signal(signal.SIGINT, before)


def _leave() -> None:
    """End the process at once: a thread in the middle of native code must not meet an interpreter that goes away."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def kept_history() -> tuple[History, str]:
    """The history of earlier prompts, and what there is to say about it.

    It is `millpond/history` in the user's state folder (`XDG_STATE_HOME`, else `~/.local/state`), for its owner alone.
    """
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    path = base / "millpond" / "history"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600))
        path.chmod(0o600)
    except OSError as error:
        return InMemoryHistory(), f"there is no history: {path} cannot be written ({error.strerror})"
    return FileHistory(str(path)), ""


def _switch(argument: str, otherwise: bool) -> bool:
    return {"on": True, "off": False}.get(argument.lower(), otherwise)


def _duration(seconds: float) -> str:
    """A time for people.

    >>> _duration(0.01234), _duration(75)
    ('12.3 ms', '1 min 15.0 s')
    """
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 60 else f"{int(seconds // 60)} min {seconds % 60:.1f} s"
