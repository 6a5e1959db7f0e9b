"""Orders of filters and of pipelines of joins in an open pond: what epochs taught of them, and the plan log."""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from millpond.adapt.filter_plans import FilterPlan, FilterProfiler, FilterReoptimiser
from millpond.adapt.observations import Observation
from millpond.adapt.plan_log import LogEntry
from millpond.catalog import Catalog
from millpond.manifests.task_reports import MapReport, MergeReport
from millpond.operators.filters.adaptive_filter import Screen
from millpond.operators.filters.subjects import Subject, stream_subject, subjects
from millpond.support.damaged_files import reading
from millpond.synopses.conjunctions import conjunction_of
from millpond.synopses.partials.specs import casts_of
from millpond.tables import write_durably
from millpond.types import Expression, StreamDefinition, from_json, to_json
from millpond.types.stream_definitions import RowDerivation

#: The file of the plan log, a JSON line each; beyond `LARGE` bytes, and twice as many as it was written with, it is
#: written anew with what is remembered.
FILE, LARGE = "plans.jsonl", 8 << 20


class Screens:
    """The screens of one map task, by subject, made as they are needed.

    Arguments:
        plans: of the epoch's manifest.
    """

    def __init__(self, plans: Mapping[str, FilterPlan]) -> None:
        self.plans = plans
        self._screens: dict[str, Screen] = {}

    def of(self, subject: str, where: Expression | None, casts: Sequence[tuple[str, str]] = ()) -> Screen | None:
        """The screen of a condition; None for one without registered functions."""
        conjunction = conjunction_of(where)
        if conjunction is None:
            return None
        if subject not in self._screens:
            self._screens[subject] = Screen(conjunction, self.plans.get(subject), casts)
        return self._screens[subject]

    def of_stream(self, source: StreamDefinition, stream: StreamDefinition) -> Screen | None:
        """The screen of a derived stream of rows."""
        assert isinstance(stream.derived, RowDerivation)
        return self.of(stream_subject(stream), stream.derived.where, casts_of(source))

    def report(self) -> dict[str, Any]:
        """What they observed, by subject."""
        return {name: screen.report() for name, screen in self._screens.items()}


@dataclass
class FilterOrders:
    """Re-optimisers of all subjects of an open pond, and their log.

    Arguments:
        path: the pond's folder.
    """

    path: str
    _reoptimisers: dict[str, tuple[Subject, FilterReoptimiser]] = field(default_factory=dict)
    _log: dict[str, list[LogEntry]] = field(default_factory=lambda: defaultdict(list))
    _seen: dict[str, Observation] = field(default_factory=dict)
    _catalog: tuple[int, tuple[Subject, ...]] = (-1, ())
    _written: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if os.path.exists(self._file):
            with open(self._file, "rb") as file:
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            with reading(self._file):
                for line in whole.splitlines():
                    entry = from_json(LogEntry, json.loads(line))
                    self._log[entry.subject] = [*self._log[entry.subject], entry][-256:]
            if len(whole) != len(data) or len(data) > LARGE:
                self._rewrite()

    @property
    def _file(self) -> str:
        return os.path.join(self.path, FILE)

    def _rewrite(self) -> None:
        """Write the file anew, with what is remembered."""
        with self._lock:
            lines = sorted((e for entries in self._log.values() for e in entries), key=lambda e: e.epoch)
        data = "".join(json.dumps(to_json(e)) + "\n" for e in lines).encode()
        self._written = write_durably(self._file, lambda out: out.write(data))

    def plans(self, catalog: Catalog) -> dict[str, FilterPlan]:
        """The plan of every subject, for a manifest."""
        with self._lock:
            self._settle(catalog)
            return {name: found.plan for name, (_, found) in self._reoptimisers.items()}

    def learn(
        self,
        catalog: Catalog,
        plans: Mapping[str, FilterPlan],
        epoch: int,
        clock: int,
        reports: Sequence[MapReport | MergeReport],
    ) -> None:
        """Take in what the tasks of a published epoch report, which had these plans."""
        by_subject: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for report in reports:
            for name, each in report.filters.items():
                by_subject[name].append(each)
        if not by_subject:
            return
        entries: list[LogEntry] = []
        with self._lock:
            self._settle(catalog)
            for name, told in by_subject.items():
                if name not in self._reoptimisers or name not in plans:
                    continue
                subject, found = self._reoptimisers[name]
                if plans[name].order != found.order:
                    continue  # an epoch from before the options of its query changed
                names = [str(n + 1) for n in range(len(subject.filters))]
                observation = FilterProfiler(names).observation(epoch, clock, told)
                self._seen[name] = observation
                entry = found.observe(observation)
                if entry is not None:
                    entries.append(entry)
                    self._log[name] = [*self._log[name], entry][-256:]
        if entries:
            with open(self._file, "a", encoding="utf-8") as file:
                file.writelines(json.dumps(to_json(e)) + "\n" for e in entries)
                file.flush()
                os.fsync(file.fileno())
                size = file.tell()
            if size > max(LARGE, 2 * self._written):
                self._rewrite()

    def of(self, catalog: Catalog, subject: str) -> tuple[Subject, FilterReoptimiser, Observation | None] | None:
        """A subject, its re-optimiser and what was last seen; None where there is nothing to be ordered."""
        with self._lock:
            self._settle(catalog)
            found = self._reoptimisers.get(subject)
            return None if found is None else (*found, self._seen.get(subject))

    def log(self, subject: str) -> list[LogEntry]:
        """The lines of the plan log of a subject, old ones first."""
        with self._lock:
            return list(self._log.get(subject, ()))

    def _settle(self, catalog: Catalog) -> None:
        """Have a re-optimiser for each subject that there is, and remember nothing of any other."""
        if self._catalog[0] != catalog.version:
            self._catalog = catalog.version, tuple(subjects(catalog))
        found = {s.name: s for s in self._catalog[1]}
        remembered: tuple[dict[str, Any], ...] = (self._reoptimisers, self._log, self._seen)
        for known_of in remembered:
            for name in [n for n in known_of if n not in found]:
                del known_of[name]
        for name, subject in found.items():
            known = self._reoptimisers.get(name)
            if known is not None and known[0].is_same(subject) and known[0].options == subject.options:
                self._reoptimisers[name] = subject, known[1]
                continue
            count, log = len(subject.filters), self._log.get(name, [])
            order = known[1].order if known is not None else log[-1].plan if log else None
            if subject.options.way == "off":
                order = tuple(range(count))
            made = FilterReoptimiser(name, count, subject.options, subject.costs, order, log)
            self._reoptimisers[name] = subject, made
