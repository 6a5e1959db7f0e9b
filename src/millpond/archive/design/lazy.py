"""OnReadModify (OSCAR): what copy maintenance does for the design 'modify', decided from the scans that there were.

At first there is the archive alone. A scan with a reduction function says which fraction of each section it wanted: the
other rows are as good as dead for that function. (OSCAR writes marks back; here a mark is a function of the row, so
there is nothing to write.) Copy maintenance makes one reduced copy per function, which new rows enter, too; when later
scans wanted less, it compacts the copy in place. A scan that wants more than the copy has reads a finer version and
changes nothing; when such scans prevail, the copy is dropped and everything starts over.

A state machine: `handle` takes an event and returns instructions. No clock, files or threads in here.

    >>> lazy = Lazy()
    >>> lazy.handle(Scanned("sample", {"e1": 0.5, "e2": 0.5}))
    []
    >>> lazy.handle(Maintain(("e1", "e2", "e3")))
    [Make(copy='modify-sample', sections={'e1': 0.5, 'e2': 0.5})]
    >>> lazy.handle(Stored("modify-sample", {"e1": 0.5, "e2": 0.5})), lazy.arrivals
    ([], {'modify-sample': 0.5})
    >>> lazy.handle(Scanned("sample", {"e1": 0.25}, to_now=False)), lazy.handle(Maintain(("e1", "e2", "e3")))
    ([], [Make(copy='modify-sample', sections={'e1': 0.25})])
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

#: Scans of a function that are looked back on, and how many there must be before its copy may be dropped.
REMEMBERED = 16
LEAST = 4

#: The share of them that the copy was too coarse for above which it is dropped.
TOO_COARSE = 0.5

#: Copies that a stream has at most; of more functions, those that were used last have one.
MOST_COPIES = 4

PREFIX = "modify-"


@dataclass(frozen=True)
class Scanned:
    """A scan was planned.

    function: the reduction function's name. wanted: the fraction to keep, by section, in order of time. to_now: it
    reads the newest section, too.
    """

    function: str
    wanted: Mapping[str, float]
    to_now: bool = True


@dataclass(frozen=True)
class Stored:
    """What a copy has: the fraction kept, by section. Empty: there is no such copy."""

    copy: str
    sections: Mapping[str, float]


@dataclass(frozen=True)
class Merged:
    """Sections were put together: `old` is now `new`."""

    old: Sequence[str]
    new: Sequence[str]


@dataclass(frozen=True)
class Maintain:
    """Copy maintenance has time. sections: of the archive now, in order of time."""

    sections: Sequence[str]


Event: TypeAlias = Scanned | Stored | Merged | Maintain


@dataclass(frozen=True)
class Make:
    """Write these sections of a copy, keeping so much of each; files that have more are replaced."""

    copy: str
    sections: Mapping[str, float]


@dataclass(frozen=True)
class Drop:
    """Drop a copy."""

    copy: str


Instruction: TypeAlias = Make | Drop


@dataclass
class _Function:
    """What is known of the scans with one function. marks: the least fraction that a scan wanted of a section.

    newest: what the last scan wanted of the newest rows. coarse: of the last scans, whether the copy was too coarse.
    """

    marks: dict[str, float] = field(default_factory=dict)
    stored: dict[str, float] = field(default_factory=dict)
    newest: float = 1.0
    coarse: deque[bool] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    used: int = 0

    def pending(self) -> dict[str, float]:
        """The sections that the copy has not got, or has more of than a scan wanted."""
        return {s: kept for s, kept in self.marks.items() if kept < self.stored.get(s, 1.0)}

    def wanted(self, sections: Sequence[str]) -> float:
        """The fraction to keep of sections together: of each what a scan wanted, what is stored, or all."""
        return max((self.marks.get(s, self.stored.get(s, 1.0)) for s in sections), default=1.0)


def copy_name(function: str) -> str:
    """The name of the copy for a reduction function.

    >>> copy_name("sample"), copy_name("age('7 days', 0.9)")
    ('modify-sample', 'modify-age-7-days-0-9-6b5d')
    """
    plain = re.sub(r"[^a-z0-9]+", "-", function.lower()).strip("-")[:40]
    if plain == function:
        return PREFIX + plain
    return f"{PREFIX}{plain}-{hashlib.blake2b(function.encode(), digest_size=2).hexdigest()}"


class Lazy:
    """The decider of one stream."""

    def __init__(self) -> None:
        self._functions: dict[str, _Function] = {}
        self._scans = 0

    @property
    def copies(self) -> list[str]:
        """The copies that there are or will be."""
        return sorted(self._functions)

    def pending(self, copy: str) -> dict[str, float]:
        """The sections of a copy that copy maintenance would make now, and the fraction that it would keep of each."""
        return self._functions[copy].pending() if copy in self._functions else {}

    @property
    def arrivals(self) -> dict[str, float]:
        """The copies that new rows enter, with the fraction that each keeps of them."""
        return {c: f.newest for c, f in self._functions.items() if f.stored and f.newest < 1}

    def handle(self, event: Event) -> list[Instruction]:
        """Take an event; the instructions that follow from it (only `Maintain` gives any)."""
        if isinstance(event, Scanned):
            self._scanned(event)
        elif isinstance(event, Stored):
            self._stored(event)
        elif isinstance(event, Merged):
            self._merged(event)
        else:
            return self._maintain(event)
        return []

    def _scanned(self, event: Scanned) -> None:
        if not event.wanted:
            return
        self._scans += 1
        known = self._functions.setdefault(copy_name(event.function), _Function())
        known.used = self._scans
        coarse = [known.stored.get(s, 1.0) < kept for s, kept in event.wanted.items()]
        known.coarse.append(sum(coarse) * 2 > len(coarse))
        for (section, kept), refused in zip(event.wanted.items(), coarse, strict=True):
            if not refused:
                known.marks[section] = min(kept, known.marks.get(section, 1.0))
        if event.to_now:
            known.newest = list(event.wanted.values())[-1]

    def _stored(self, event: Stored) -> None:
        if not event.sections:
            if event.copy in self._functions:
                self._functions[event.copy].stored = {}
            return
        fresh = event.copy not in self._functions
        known = self._functions.setdefault(event.copy, _Function())
        known.stored = dict(event.sections)
        if fresh:  # found on disk: it goes on as it was
            known.newest = list(event.sections.values())[-1]

    def _merged(self, event: Merged) -> None:
        for known in self._functions.values():
            kept = known.wanted(event.old)
            for section in event.old:
                known.marks.pop(section, None)
            if kept < 1:
                known.marks.update(dict.fromkeys(event.new, kept))

    def wanted_of(self, sections: Sequence[str]) -> dict[str, float]:
        """For sections that are put together: what each existing copy keeps of the whole."""
        return {
            copy: kept
            for copy, known in self._functions.items()
            if known.stored and (kept := known.wanted(sections)) < 1
        }

    def _maintain(self, event: Maintain) -> list[Instruction]:
        instructions: list[Instruction] = []
        kept_on: list[str] = []
        for copy, known in sorted(self._functions.items(), key=lambda item: -item[1].used):
            refused = len(known.coarse) >= LEAST and sum(known.coarse) > TOO_COARSE * len(known.coarse)
            if refused or len(kept_on) == MOST_COPIES:
                del self._functions[copy]
                instructions += [Drop(copy)] if known.stored else []
                continue
            kept_on.append(copy)
            known.marks = {s: known.marks[s] for s in event.sections if s in known.marks}
            make = known.pending()
            instructions += [Make(copy, make)] if make else []
        return instructions
