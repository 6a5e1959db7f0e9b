"""What a stream takes its rows from by itself: files, what epochs give for it, or what they report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from millpond.catalog.catalogs import Catalogs
from millpond.engine.intake.live_storage import Source
from millpond.manifests.epochs import Epochs
from millpond.manifests.places import query_owner
from millpond.manifests.quarantine import Failures, quarantine
from millpond.operators.derived.granularity import is_needed
from millpond.operators.derived.passed_rows import reached
from millpond.operators.registry import operators_of
from millpond.sources.derived_stream import DerivedSource, Reached, derived_folder
from millpond.sources.files import FileSource
from millpond.sources.intake_log import IntakeLog
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
        """The source of a derived stream; it is asked while the pond's lock is held."""

        def far() -> Reached | None:
            failures = Failures(self.catalogs.catalog, f"the source of {definition.name}")
            published, owner = self.epochs.published, query_owner(next(iter(definition.queries), 0))
            answering = operators_of(failures.catalog).answering
            found = failures.attempt(owner, lambda: reached(failures.catalog, published, definition, answering))
            quarantine(self.catalogs.log, failures.reasons)
            return found

        def needed(steps: Sequence[tuple[int, int]]) -> bool:
            failures = Failures(self.catalogs.catalog, f"the source of {definition.name}")
            published, answering = self.epochs.published, operators_of(failures.catalog).answering
            asking = partial(is_needed, failures, answering, published, definition.id)
            found = any(asking(announced, bound) for announced, bound in dict.fromkeys(steps))
            quarantine(self.catalogs.log, failures.reasons)
            return found

        assert definition.derived is not None
        return DerivedSource(definition, log, derived_folder(self.path, definition), far, needed)
