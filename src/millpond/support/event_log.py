"""The log: events in a few words, each with fields, a line each; as text or as JSON. Nothing is said for every row.

    LOG = event_log(__name__)
    LOG.warning("epoch failed", epoch=7, attempt=2, error="…")

Events are records of `logging`, under the name of the module that tells them, so that who embeds Millpond handles them
as any others; `configure` is for programs that have nothing else to say where they go.
"""

from __future__ import annotations

import datetime as dt
import errno
import json
import logging
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO, Any, Final, Literal

from millpond.support.texts.json_texts import plain

Form = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]

#: The logger above all of Millpond's.
ROOT: Final = "millpond"

#: What the system says of a full disk.
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_FULL_TEXTS: Final = ("No space left on device", "Disk quota exceeded")


class Event:
    """What a line says: an event and its fields.

    >>> str(Event("epoch failed", {"epoch": 7, "seconds": 1.23456, "error": "it is so"}))
    'epoch failed epoch=7 seconds=1.235 error="it is so"'
    """

    def __init__(self, event: str, fields: dict[str, Any]) -> None:
        self.event, self.fields = event, fields

    def __str__(self) -> str:
        return " ".join([self.event, *(f"{name}={_field(value)}" for name, value in self.fields.items())])


def _field(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, str) and value and not any(c in value for c in ' "=\n\r\t'):
        return value
    return json.dumps(plain(value), ensure_ascii=False)


class EventLog:
    """Tells events under one name."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, /, **fields: Any) -> None:
        """What only who looks for something wants to know."""
        self._say(logging.DEBUG, event, None, fields)

    def info(self, event: str, /, **fields: Any) -> None:
        """Something that went as it should."""
        self._say(logging.INFO, event, None, fields)

    def warning(self, event: str, /, trace: BaseException | None = None, **fields: Any) -> None:
        """Something that somebody should look at some time. trace: where it comes from."""
        self._say(logging.WARNING, event, trace, fields)

    def error(self, event: str, /, trace: BaseException | None = None, **fields: Any) -> None:
        """Something that does not go on by itself, or that is lost. trace: where it comes from."""
        self._say(logging.ERROR, event, trace, fields)

    def _say(self, level: int, event: str, trace: BaseException | None, fields: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            known = {name: value for name, value in fields.items() if value is not None}
            self._logger.log(level, Event(event, known), exc_info=trace, stacklevel=3)


def event_log(name: str) -> EventLog:
    """The log of a module: `event_log(__name__)`."""
    return EventLog(name)


class Seldom:
    """Lets something through once in so many seconds, with how much of it there was since. Safe for several threads.

    >>> seldom = Seldom(60)
    >>> seldom.due("s", 3), seldom.due("s", 4)
    (3, 0)
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._said: dict[str, tuple[float, int]] = {}

    def due(self, what: str, amount: int) -> int:
        """How much is to be told now; 0: nothing yet."""
        now = time.monotonic()
        with self._lock:
            said, waiting = self._said.get(what, (float("-inf"), 0))
            told = amount + waiting if now - said >= self._seconds else 0
            self._said[what] = (now, 0) if told else (said, amount + waiting)
            return told


# -- errors ------------------------------------------------------------------------------------------------------------


def is_disk_full(error: BaseException) -> bool:
    """Whether a full disk is behind an error, however wrapped.

    >>> is_disk_full(OSError(errno.ENOSPC, "No space left on device")), is_disk_full(OSError(errno.EIO, "no"))
    (True, False)
    """
    return any(
        (isinstance(each, OSError) and each.errno in _FULL) or any(text in str(each) for text in _FULL_TEXTS)
        for each in _behind(error)
    )


def _behind(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException | None] = []
    each: BaseException | None = error
    while each is not None and each not in seen:
        yield each
        seen.append(each)
        each = each.__cause__ or each.__context__


# -- where lines go ----------------------------------------------------------------------------------------------------


class TextLines(logging.Formatter):
    """`2026-01-01T12:00:00.123Z WARNING millpond.engine.control.loop epoch failed epoch=7 …`, and a trace below."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        said = record.getMessage().replace("\n", "\\n")
        line = f"{_time(record)} {record.levelname} {record.name} {said}"
        return line if not record.exc_info else f"{line}\n{self.formatException(record.exc_info)}"


class JsonLines(logging.Formatter):
    """An object a line: time, level, logger, event, the event's fields, and `trace` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        said = record.msg if isinstance(record.msg, Event) else Event(record.getMessage(), {})
        found = {"time": _time(record), "level": record.levelname.lower(), "logger": record.name, "event": said.event}
        found |= {name: value for name, value in said.fields.items() if name not in found}
        if record.exc_info:
            found["trace"] = self.formatException(record.exc_info)
        return json.dumps(plain(found), ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    moment = dt.datetime.fromtimestamp(record.created, dt.UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds") + "Z"


class _Lines(logging.StreamHandler[Any]):
    """The handler that `configure` sets. stream: None: what is standard error when something is to be said."""

    def __init__(self, stream: IO[str] | None) -> None:
        super().__init__(stream)
        self._given = stream

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self.stream = self._given or sys.stderr
        super().emit(record)


def configure(form: Form = "text", level: Level = "warning", stream: IO[str] | None = None) -> None:
    """Write the log of this process, and warnings of what it uses, to a stream. A second call takes the first's place.

    Args:
        level: the least that is written of Millpond's own events. stream: None: standard error.
    """
    handler = _Lines(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h, _Lines)]:
        root.removeHandler(old)
    root.addHandler(handler)
    logging.getLogger(ROOT).setLevel(level.upper())


def is_json() -> bool:
    """Whether `configure` was asked for JSON last."""
    return any(isinstance(h, _Lines) and isinstance(h.formatter, JsonLines) for h in logging.getLogger().handlers)
