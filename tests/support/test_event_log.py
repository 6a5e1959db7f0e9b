"""Log lines: a line an event, as text and as JSON, whatever stands in it."""

from __future__ import annotations

import errno
import io
import json
import logging
from collections.abc import Iterator

import pytest

from millpond.support import event_log as logs
from millpond.support.event_log import Seldom, configure, event_log, is_disk_full, is_json

LOG = event_log("millpond.some.module")


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    """The log as it was."""
    root, level = logging.getLogger(), logging.getLogger("millpond").level
    before = list(root.handlers)
    yield
    root.handlers[:] = before
    logging.getLogger("millpond").setLevel(level)


def fails() -> Exception:
    """An error that was raised."""
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        return error


def test_json_lines() -> None:
    out = io.StringIO()
    configure("json", "info", out)
    LOG.info("it went", seconds=float("nan"), names=("a", 'b"'), text="two\nlines", none=None, level="its own")
    LOG.debug("nobody asked")
    LOG.error("it failed", fails(), error="why")
    logging.getLogger("elsewhere").warning("%s told", "another library")
    logging.getLogger("elsewhere").info("and this is none of ours")
    first, second, third = (json.loads(line) for line in out.getvalue().splitlines())
    assert first.pop("time").endswith("Z") and len(second["time"]) == len("2026-01-01T00:00:00.000Z")
    assert first == {"level": "info", "logger": "millpond.some.module", "event": "it went", "seconds": "NaN",
                     "names": ["a", 'b"'], "text": "two\nlines"}  # fmt: skip
    assert (second["level"], second["event"], second["error"]) == ("error", "it failed", "why")
    assert "ValueError: two" in second["trace"] and "in fails" in second["trace"]
    assert (third["logger"], third["event"]) == ("elsewhere", "another library told")
    assert is_json()


def test_text_lines() -> None:
    out = io.StringIO()
    configure("text", "debug", out)
    LOG.debug("it went", epoch=7, seconds=1.5, stream="my stream", empty="", reason="a=b")
    LOG.warning("it failed", error="two\nlines")
    first, second = out.getvalue().splitlines()
    time, line = first.split(" ", 1)
    assert time.endswith("Z") and not is_json()
    assert line == 'DEBUG millpond.some.module it went epoch=7 seconds=1.5 stream="my stream" empty="" reason="a=b"'
    assert second.endswith('WARNING millpond.some.module it failed error="two\\nlines"')
    configure("text", "error", out)
    LOG.warning("nobody asked")
    assert len(out.getvalue().splitlines()) == 2, "a second call takes the first's place"


def test_lines_go_to_what_is_standard_error_when_they_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr("sys.stderr", first)
    configure()
    LOG.warning("one")
    first.close()
    monkeypatch.setattr("sys.stderr", second)
    LOG.warning("two")
    assert second.getvalue().endswith("two\n")


def test_the_place_is_that_of_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    LOG.warning("here")
    assert caplog.records[0].funcName == "test_the_place_is_that_of_the_caller"
    assert caplog.records[0].getMessage() == "here"


def test_a_full_disk_is_known_however_wrapped() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    wrapped = RuntimeError("epoch 7 failed")
    wrapped.__cause__ = full
    assert is_disk_full(wrapped) and is_disk_full(RuntimeError("task: [Errno 28] No space left on device: 'x'"))
    assert not is_disk_full(fails())
    loop = RuntimeError("a")
    loop.__cause__ = RuntimeError("b")
    loop.__cause__.__cause__ = loop
    assert not is_disk_full(loop)


def test_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(logs.time, "monotonic", lambda: now)
    seldom = Seldom(60)
    assert [seldom.due("s", 2), seldom.due("s", 3), seldom.due("t", 1)] == [2, 0, 1]
    now = 161.0
    assert [seldom.due("s", 4), seldom.due("s", 1)] == [7, 0]
