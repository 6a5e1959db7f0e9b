"""Feeds: streaming DataFrames of Spark that a pond takes in, as long as it is open."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from millpond.engine.intake.live_storage import LiveStorage
from millpond.engine.pond_view import PondView
from millpond.sources.frames import batch_key, check_columns, check_frame, create_statement, feed, last_batch
from millpond.sources.intake_log import Item
from millpond.support.errors import PondError, SourceError
from millpond.types import StreamDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery


class Feeds:
    """The feeds of one pond.

    Arguments:
        pond: what is published. storage: with what streams take in. sql: executes a statement.
        kick: says that there is work.
    """

    def __init__(
        self, pond: PondView, storage: LiveStorage, sql: Callable[[str], object], kick: Callable[[], None]
    ) -> None:
        self._pond, self._storage, self._sql, self._kick = pond, storage, sql, kick
        self._running: dict[tuple[str, str], StreamingQuery] = {}

    def start(
        self,
        frame: DataFrame,
        stream: str,
        name: str,
        partition: str,
        trigger: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> StreamingQuery:
        """See `Pond.stream_from`."""
        check_frame(frame, trigger)
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            raise SourceError(f"a feed's name is letters, digits, _ and -, at most 64; not {name!r}")
        definition = self._stream(frame, stream, options)
        check_columns(frame.columns, definition)
        key = (definition.name.lower(), name)
        if key in self._running and self._running[key].isActive:
            raise SourceError(f"the feed '{name}' of stream '{stream}' runs already; stop it, or give this one a name")
        folder = self._storage.streams[definition.id].log.folder
        checkpoint = os.path.join(folder, "feeds", name)
        landing = str(self._storage.streams[definition.id].landing.folder)
        self._running[key] = feed(frame, self._land(definition.id, stream), landing, checkpoint, partition, trigger)
        return self._running[key]

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """By stream: the feeds of this process, whether they run, and what ended them."""
        found: dict[str, list[dict[str, Any]]] = {}
        for (stream, name), query in self._running.items():
            fault = None
            if not query.isActive and (error := query.exception()) is not None:
                fault = str(error).strip().splitlines()[-1]
            found.setdefault(stream, []).append({"name": name, "active": query.isActive, "error": fault})
        return found

    def stop(self) -> None:
        """Stop all feeds; what they have not taken they take when they are started again."""
        for query in self._running.values():
            with contextlib.suppress(Exception):  # of a Spark that was stopped before
                query.stop()

    def _stream(self, frame: DataFrame, name: str, options: Mapping[str, Any]) -> StreamDefinition:
        """The stream that is fed; made where there is none."""
        definition = self._pond.catalog.stream(name)
        if definition is None:
            self._sql(create_statement(name, frame.schema, options))
            definition = self._pond.catalog.stream(name)
            assert definition is not None
        elif options:
            raise SourceError(
                f"stream '{name}' is there already, so {', '.join(options)} cannot be set here; see ALTER STREAM … SET"
            )
        if definition.options.source == "system":
            raise SourceError(f"stream '{name}' is the system's: its rows are what epochs report")
        if definition.derived is not None:
            raise SourceError(f"stream '{name}' is derived: its rows are answers; feed what it reads")
        if self._storage.streams[definition.id].log.ended:
            raise SourceError(f"stream '{name}' has ended (DRAIN FINAL); recreate it to take rows again")
        return definition

    def _land(self, stream: int, name: str) -> Callable[[list[Item], str, int], None]:
        last: dict[str, int] = {}

        def land(items: list[Item], feed: str, number: int) -> None:
            pond = self._pond
            runtime = self._storage.streams.get(stream)
            if runtime is None or stream not in pond.catalog.streams:
                raise SourceError(f"stream '{name}' was dropped meanwhile")
            if runtime.log.ended:
                raise SourceError(f"stream '{name}' has ended (DRAIN FINAL)")
            if feed not in last:
                last[feed] = last_batch(runtime.log, feed)
            if number <= last[feed]:  # Spark repeats a batch that it did not know to be done
                for item in items:
                    os.unlink(item.path)
                return
            with pond.lock:
                if pond.epochs.closing:
                    raise PondError("the pond is closed")
                arrival = pond.now()
                runtime.arriving.append(arrival)
            try:
                runtime.landing.adopt(items, batch_key(feed, number), arrival)
            finally:
                with pond.lock:
                    runtime.arriving.remove(arrival)
            last[feed] = number
            self._kick()

        return land
