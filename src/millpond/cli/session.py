"""A pond for the length of a command, and how commands end: exit statuses, signals, temporary ponds."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, cast

import typer

from millpond.cli.output import OutputClosed
from millpond.support.errors import MillpondError, StatementError
from millpond.support.event_log import Form, Level, configure, event_log, is_json
from millpond.support.sql_values import of_json
from millpond.types.options import Settings, options_of

if TYPE_CHECKING:
    from millpond.api.pond import Pond
    from millpond.client.remote_pond import RemotePond

LOG = event_log(__name__)

Command = TypeVar("Command", bound=Callable[..., Any])

#: Exit statuses beside 0.
FAILED = 1
WRONG_STATEMENT = 2
INTERRUPTED = 130  # as a shell reports SIGINT
OUTPUT_CLOSED = 141  # as a shell reports SIGPIPE
TERMINATED = 143  # as a shell reports SIGTERM


#: Seconds of starting that need no explanation.
_MOMENT = 1.5


class _Terminated(BaseException):
    """Somebody asked this process to end; raised in the main thread so that the pond is closed first."""


def _terminate(number: int, frame: FrameType | None) -> None:
    raise _Terminated


@contextmanager
def reporting() -> Iterator[None]:
    """Turn what users can cause into a message on standard error and an exit status; bugs keep their trace.

    Raises: typer.Exit with the status.
    """
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except StatementError as error:
        _complain(error)
        raise typer.Exit(WRONG_STATEMENT) from None
    except MillpondError as error:
        _complain(error)
        raise typer.Exit(FAILED) from None
    except OutputClosed:
        # Python flushes standard output once more at its end, which must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(OUTPUT_CLOSED) from None
    except KeyboardInterrupt:
        say("stopped")
        raise typer.Exit(INTERRUPTED) from None
    except _Terminated:
        say("terminated")
        raise typer.Exit(TERMINATED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


_LOG_FORMAT = Annotated[
    Form, typer.Option("--log-format", envvar="MILLPOND_LOG_FORMAT", help="How the log goes to standard error.")
]
_LOG_LEVEL = Annotated[
    Level, typer.Option("--log-level", envvar="MILLPOND_LOG_LEVEL", help="The least that the log tells.")
]


def logged(level: Level = "warning") -> Callable[[Command], Command]:
    """Gives a command the options --log-format and --log-level, and its log to standard error.

    Args:
        level: what is told unless the options say otherwise.
    """

    def around(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True)
        keyword = inspect.Parameter.KEYWORD_ONLY
        form = inspect.Parameter("log_format", keyword, default="text", annotation=_LOG_FORMAT)
        least = inspect.Parameter("log_level", keyword, default=level, annotation=_LOG_LEVEL)

        def run(*arguments: Any, log_format: Form, log_level: Level, **more: Any) -> Any:
            configure(log_format, log_level)
            return command(*arguments, **more)

        parameters = [*own.parameters.values(), form, least]
        run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # what Typer reads
        return cast(Command, run)

    return around


def _complain(error: MillpondError) -> None:
    """Say why a command fails: where the log is JSON, as a line of it."""
    if is_json():
        LOG.error("failed", error=str(error))
    else:
        say(f"error: {error}")


@contextmanager
def opened(path: Path | None, executor: str, settings: dict[str, Any]) -> Iterator[Pond]:
    """The pond at `path`, or one in a temporary folder that is removed afterwards.

    Arguments:
        path: the pond's folder, made when it is missing; None for a temporary pond.
        executor: "spark", or "inline" for tests.
        settings: further settings of `millpond.open`.
    """
    import millpond

    folder = Path(tempfile.mkdtemp(prefix="millpond-")) if path is None else path
    try:
        pond = millpond.open(folder, executor=executor, **settings)
        try:
            yield pond
        finally:
            pond.close()
    finally:
        if path is None:
            shutil.rmtree(folder, ignore_errors=True)


def announce_start(pond: Pond) -> None:
    """Say that Spark is starting, should that take longer than a moment."""

    def announce() -> None:
        with contextlib.suppress(MillpondError):  # what is wrong is said by whoever waits for it
            if not pond.ready(_MOMENT):
                say("Spark is starting, which takes some seconds …")

    threading.Thread(target=announce, name="millpond-announce", daemon=True).start()


@contextmanager
def reached(
    path: Path | None, url: str | None, token: str | None, executor: str, settings: dict[str, Any]
) -> Iterator[Pond | RemotePond]:
    """The pond of a server when there is a URL, else the one at `path` as of `opened`.

    Arguments:
        url: a server's address. token: what it knows the user by.
    """
    import millpond

    if url is None:
        with opened(path, executor, settings) as pond:
            yield pond
        return
    with millpond.connect(url, token) as remote:
        yield remote


#: What the name of a kind of windows begins with.
_KIND = "window_kind."

#: Arguments of `millpond.open` that are no settings, and what gives them here.
_ELSEWHERE = {
    "path": "the pond's folder is an argument or option of its own",
    "executor": "epochs run on Spark; the in-process executor is for tests: millpond.open(path, executor='inline')",
    "clock": "a clock is a function: millpond.open(path, clock=…)",
    "window_kinds": "a kind of windows is given with --set window_kind.NAME=package.module:NAME",
}


def parse_pairs(pairs: list[str]) -> dict[str, str]:
    """`NAME=VALUE` pairs. Raises: typer.BadParameter for what is none.

    >>> parse_pairs(["shards=4", "window_kind.months=calendar.kinds:Months"])
    {'shards': '4', 'window_kind.months': 'calendar.kinds:Months'}
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.removeprefix(_KIND).isidentifier():
            raise typer.BadParameter(f"'{pair}' is not NAME=VALUE")
        found[name] = value
    return found


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """`NAME=VALUE` pairs as keyword arguments; what is no setting, and JSON (`storage={…}`), is read as that.

    `window_kind.months=calendar.kinds:Months` gives a kind of windows that the pond's queries use.

    >>> parse_settings(["shards=4", "master=local[2]"])
    {'shards': '4', 'master': 'local[2]'}
    """
    settings: dict[str, Any] = {}
    for name, value in parse_pairs(pairs).items():
        if name in _ELSEWHERE:
            raise typer.BadParameter(f"'{name}' is not set with --set; {_ELSEWHERE[name]}")
        if name.startswith(_KIND):
            settings.setdefault("window_kinds", {})[name.removeprefix(_KIND)] = _imported(value)
        else:
            settings[name] = value if name in options_of(Settings) else _json(value)
    return settings


class Script(NamedTuple):
    """A script and the values of its parameters; None: it is run as it is."""

    text: str
    parameters: Mapping[str, Any] | None = None


def parse_parameters(pairs: list[str]) -> dict[str, Any] | None:
    """`NAME=VALUE` pairs as values of parameters: JSON (a number, true, null, a list, …), else a text.

    >>> parse_parameters(["k=a", "n=5", "day=2026-03-01", 'list=["x"]']), parse_parameters([])
    ({'k': 'a', 'n': 5, 'day': '2026-03-01', 'list': ['x']}, None)
    """
    return {name: of_json(_json(value)) for name, value in parse_pairs(pairs).items()} or None


def _json(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _imported(reference: str) -> Any:
    """What `package.module:NAME` names, looked for in the working directory as well; of a class an instance."""
    module, _, name = reference.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name)
        return found() if isinstance(found, type) else found
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise typer.BadParameter(f"'{reference}' is no kind of windows: {error}; it is package.module:NAME") from None
    finally:
        sys.path.remove(os.getcwd())


def say(text: str) -> None:
    """One message to standard error."""
    print(text, file=sys.stderr, flush=True)
