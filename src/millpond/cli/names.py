"""The names of a pond, as completion and `\\d` need them: looked up in the background, kept for a short while."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from millpond.support.errors import MillpondError

#: Row queries beyond these are not listed for completion.
MOST_QUERIES: Final = 5_000
_FRESH: Final = 15.0


class Names:
    """The streams, tables and queries of a pond and their columns.

    Arguments:
        pond: an open pond, or one of `millpond.connect`.

    What is known is given at once; what is old is looked up again in a thread, so that nobody waits while typing.
    """

    def __init__(self, pond: Any) -> None:
        self._pond = pond
        self._kinds: dict[str, str] = {}
        self._columns: dict[str, list[tuple[str, str]]] = {}
        self._lock = threading.Lock()
        self._asked = -_FRESH
        self._looking: threading.Thread | None = None

    @property
    def kinds(self) -> dict[str, str]:
        """Every known name, and what it is: 'stream', 'table' or 'query'."""
        with self._lock:
            return dict(self._kinds)

    def columns(self, name: str) -> list[tuple[str, str]]:
        """Names and types of the columns of a stream, table or query; none when there is no such name."""
        key = name.lower()
        with self._lock:
            if key in self._columns:
                return self._columns[key]
            kind = next((k for n, k in self._kinds.items() if n.lower() == key), None)
        if kind is None:
            return []
        try:
            found = self._pond.query(name).info() if kind == "query" else self._pond.describe(name)
        except MillpondError:
            return []
        columns = [(c["name"], c["type"]) for c in found.get("columns", ())]
        with self._lock:
            self._columns[key] = columns
        return columns

    def changed(self) -> None:
        """Look everything up again: a statement may have changed it."""
        self._asked = -_FRESH
        self.refresh()

    def refresh(self, wait: bool = False) -> None:
        """Look up what there is, in a thread of its own, unless that was done a moment ago."""
        if time.monotonic() - self._asked >= _FRESH and (self._looking is None or not self._looking.is_alive()):
            self._asked = time.monotonic()
            self._looking = threading.Thread(target=self._look, name="millpond-names", daemon=True)
            self._looking.start()
        if wait and self._looking is not None:
            self._looking.join()

    def close(self) -> None:
        """Wait until nothing is looked up any more, a moment at most."""
        if self._looking is not None:
            self._looking.join(2.0)

    def _look(self) -> None:
        try:
            kinds = find(self._pond)
        except Exception:  # completion is a help: whatever keeps it from looking must not disturb the prompt
            return
        with self._lock:
            self._kinds = kinds
            self._columns = {}


def find(pond: Any) -> dict[str, str]:
    """Every stream, table and query of a pond and its kind, without queries that nobody named.

    Raises: what the pond raises when it cannot be asked.
    """
    state = pond.status()
    # The query of a stream of answers has the name of the stream.
    kinds = dict.fromkeys(state["queries"], "query") | dict.fromkeys(state["streams"], "stream")
    kinds |= dict.fromkeys(pond.sql("SHOW TABLES").to_arrow()["table"].to_pylist(), "table")
    rows = state.get("row_queries") or {}
    if 0 < rows.get("live", 0) + rows.get("paused", 0) <= MOST_QUERIES:
        names = pond.sql("SHOW QUERIES").to_arrow()["query"].to_pylist()
        kinds |= dict.fromkeys((n for n in names if n not in kinds and not n.startswith("#")), "query")
    return kinds
