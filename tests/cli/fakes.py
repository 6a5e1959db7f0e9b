"""A pond that answers from a list, so that the command line can be tested without an engine.

Run as a program it is the command line on such a pond; what the pond does is then said by FAKE_POND.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from millpond.support.errors import EngineError, StatementError


@dataclass
class Result:
    """What pond.run gives for a statement."""

    kind: str
    message: str = ""
    table: pa.Table | None = None
    statement: str = ""
    report: Any = None


@dataclass
class FakePond:
    """Understands statements that are a word: rows, message, wrong, fail, many, sleep; notes what was done with it."""

    path: Path
    settings: dict[str, Any] = field(default_factory=dict)
    closed: bool = False
    parameters: Mapping[str, Any] | None = None

    def run(self, script: str, parameters: Mapping[str, Any] | None = None) -> Iterator[Result]:
        """One result for each word."""
        self.parameters = parameters
        for word in script.replace(";", " ").split():
            if word == "rows":
                yield Result("rows", table=pa.table({"a": [1, 2], "b": ["x", None]}))
            elif word == "message":
                yield Result("message", "done")
            elif word == "wrong":
                raise StatementError("no such thing", script, script.index("wrong"), script.index("wrong") + 5)
            elif word == "fail":
                raise EngineError("epoch 7 failed: disk full")
            elif word == "bug":
                raise ZeroDivisionError
            elif word == "many":
                for _ in range(100):
                    yield Result("rows", table=pa.table({"a": list(range(5000))}))
            elif word == "sleep":
                print("sleeping", flush=True)
                time.sleep(600)

    def check(self, script: str, parameters: Mapping[str, Any] | None = None) -> None:
        """What is wrong shows when it is executed."""

    def ready(self, timeout: float | None = None) -> bool:
        """There is nothing to start."""
        return True

    def status(self) -> dict[str, Any]:
        """A status like the engine's."""
        stream = {"rows": 1234, "rate": 5.5, "watermark": 1_362_132_000_000_000, "high_watermark": None, "late": 3}
        return {"epochs": 7, "streams": {"s": stream}, "queries": {"q": {"rows": 9, "revisions": 1}}}

    def close(self) -> None:
        """Leave a trace: tests see that it came to this."""
        self.closed = True
        if trace := os.environ.get("FAKE_POND_TRACE"):
            Path(trace).write_text(str(self.path))


def main() -> None:
    """The command line on a fake pond."""
    import millpond
    from millpond.cli import main as command_line

    millpond.open = lambda path, **settings: FakePond(Path(path), settings)  # type: ignore[assignment]  # stands in for the pond
    command_line()


if __name__ == "__main__":
    sys.exit(main())
