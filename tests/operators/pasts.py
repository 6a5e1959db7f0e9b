"""What a driver has of the past: its archives, as back-fills read them, and queries that come late."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from millpond.archive.observed_load import Load
from millpond.archive.open_archives import Archives
from millpond.catalog import Catalog, Standing
from millpond.tables.executors import InlineExecutor
from millpond.types.stream_definitions import Derivation, RowDerivation

if TYPE_CHECKING:
    from tests.operators.driver import Driver


def _with_past(derived: Derivation, epoch: int) -> Derivation:
    """Rows are made from what the source has kept; answers have the past that their query has."""
    begun = replace(derived, first_epoch=epoch)
    return replace(begun, history=True) if isinstance(begun, RowDerivation) else begun


def begun_at(catalog: Catalog, epoch: int) -> Catalog:
    """A catalog whose queries and derived streams are there from an epoch on, and wait for their past.

    Queries that need rows of the past do not share stores (`catalog.sharing`): each gets its own here.
    """
    queries, stores = {}, {}
    for number, standing in catalog.queries.items():
        own = {owner: f"{owner}.{number}" for owner in standing.inputs}
        inputs = tuple(own[owner] for owner in standing.inputs)
        queries[number] = replace(_since_start(standing), first_epoch=epoch, status="backfilling", inputs=inputs)
        stores |= {new: replace(catalog.stores[old], owner=new, first_epoch=epoch) for old, new in own.items()}
    streams = {
        number: stream if stream.derived is None else replace(stream, derived=_with_past(stream.derived, epoch))
        for number, stream in catalog.streams.items()
    }
    synopses = {owner: replace(each, first_epoch=epoch) for owner, each in catalog.synopses.items()}
    return replace(catalog, queries=queries, streams=streams, synopses=synopses, stores=stores)


def _since_start(standing: Standing) -> Standing:
    definition = standing.definition
    return replace(standing, definition=replace(definition, options=replace(definition.options, since="start")))


@dataclass
class _Storage:
    """The files of a driver's archives, as scans look at them."""

    path: str
    streams: dict[int, Any]
    lock: threading.RLock = field(default_factory=threading.RLock)

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """No file goes."""
        yield


def archives_of(driver: Driver) -> Archives:
    """The archives of a driver as they are now; there are no copies and no summaries to read instead of them."""
    streams = {
        number: SimpleNamespace(
            definition=stream,
            archive=SimpleNamespace(segments=segments, snapshot=(segments, None)),
            copies={},
            is_lazy=False,
        )
        for number, stream in driver.catalog.streams.items()
        for segments in [tuple(driver.archive[number])]
    }
    made: Any = (
        _Storage(driver.pond, streams),
        SimpleNamespace(catalog=driver.catalog),
        SimpleNamespace(published=driver.published),
        InlineExecutor(),
    )
    return Archives(*made, Load(driver.pond, 1.0, lambda: 0, lambda: None))
