"""What a stream takes its rows from by itself: files, what epochs give for it, or what they report."""

from __future__ import annotations

from dataclasses import dataclass

from millpond.archive.storage import Source
from millpond.catalog.catalogs import Catalogs
from millpond.manifests.epochs import Epochs
from millpond.operators.derived.granularity import is_needed
from millpond.operators.derived.rows import reached
from millpond.operators.registry import operators_of
from millpond.sources.derived import DerivedSource, derived_folder
from millpond.sources.files import FileSource
from millpond.sources.intake import IntakeLog
from millpond.sources.system import SystemSource
from millpond.types import StreamDefinition


@dataclass(frozen=True)
class StreamSources:
    """Makes the sources of a pond's streams.

    path: the pond's folder. settle: microseconds for which a file must be unchanged before it is taken.
    """

    path: str
    catalogs: Catalogs
    epochs: Epochs
    settle: int

    def __call__(self, definition: StreamDefinition, log: IntakeLog) -> Source:
        """The source of a stream; None: its rows come by `ingest` only."""
        if definition.derived is not None:
            return self._derived(definition, log)
        if definition.options.source == "system":
            return SystemSource(log, derived_folder(self.path, definition), lambda: self.epochs.published.epoch)
        if definition.options.source == "files":
            return FileSource(definition, log, settle=self.settle)
        return None

    def _derived(self, definition: StreamDefinition, log: IntakeLog) -> DerivedSource:
        def needed(announced: int, bound: int) -> bool:
            published, catalog = self.epochs.published, self.catalogs.catalog
            answering = operators_of(catalog).answering
            return is_needed(catalog, answering, published.progress, published.queries, definition.id, announced, bound)

        return DerivedSource(
            definition,
            log,
            derived_folder(self.path, definition),
            lambda: reached(self.catalogs.catalog, self.epochs.published, definition),
            needed,
        )


__all__ = ["StreamSources"]
