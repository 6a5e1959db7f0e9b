"""Matching (OSCAR): the stored version of a section that is closest to what a scan wants, and finer.

A section is a file of the archive; copies have it, too, each with its own fraction of the rows. When 40 % are to be
dropped, and there are copies that lack 25, 50 and 75 %, the first is read, and a fifth of it dropped.

What a scan saves is what it does not read. A version with fewer rows mostly has fewer bytes, but not always: where
values follow each other closely all of them are stored in less than some, which have gaps. So of the versions that are
fine enough the one is read of which fewest bytes are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from millpond.archive.design.sampling import PLACES


@dataclass(frozen=True)
class Copy:
    """A stored version of a section.

    name: '' is the archive itself. kept: the fraction of the section's rows in it. blocks: row groups of a randomized
    run, of which group b holds the rows with b / blocks <= u < (b + 1) / blocks; 0: rows are in order of time.
    bytes: how large it is; 0: not known.
    """

    name: str
    kept: float = 1.0
    blocks: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Choice:
    """What a scan reads of a section.

    copy: the version. groups: how many row groups of a run, from the first on; None: the whole file.
    kept: the fraction of the section's rows that the scan gets. thin: whether it has to drop rows of what it reads.
    """

    copy: Copy
    groups: int | None
    kept: float
    thin: bool


def groups_for(kept: float, blocks: int) -> int:
    """How many row groups of a run hold the rows with u < kept.

    >>> groups_for(0.25, 4), groups_for(0.26, 4), groups_for(round(1 - 0.7, 12), 10)
    (1, 2, 3)
    """
    count = min(blocks, math.ceil(kept * blocks))
    while count > 1 and round((count - 1) / blocks, PLACES) >= kept:
        count -= 1
    return count


def choose(copies: Sequence[Copy], kept: float, exact: bool = True) -> Choice | None:
    """The version to read when the fraction `kept` of the rows is wanted; None when all of them have fewer.

    Arguments:
        copies: the versions that there are. exact: whether rows beyond the fraction are dropped after reading; they
            cost nothing more and make estimates better, so a scan that has no need of the rate keeps them.

    >>> stored = [Copy(""), Copy("a", 0.75), Copy("b", 0.5), Copy("c", 0.25)]
    >>> choose(stored, 0.6)
    Choice(copy=Copy(name='a', kept=0.75, blocks=0, bytes=0), groups=None, kept=0.6, thin=True)
    >>> choose(stored, 0.6, exact=False).kept, choose(stored[3:], 0.6)
    (0.75, None)
    >>> choose([Copy("", blocks=4)], 0.3)
    Choice(copy=Copy(name='', kept=1.0, blocks=4, bytes=0), groups=2, kept=0.3, thin=True)
    >>> choose([Copy("", bytes=900), Copy("a", 0.75, bytes=1200)], 0.6).copy.name
    ''
    """
    fitting = [_of(copy, kept, exact) for copy in copies if copy.kept >= kept]
    if not fitting:
        return None
    # What is read of the section, in bytes and in rows; the archive itself before a copy that costs as much.
    known = all(copy.bytes for copy in copies)
    return min(fitting, key=lambda c: (_read(c) * c.copy.bytes if known else 0, _read(c) * c.copy.kept, c.copy.name))


def _of(copy: Copy, kept: float, exact: bool) -> Choice:
    if not copy.blocks:
        got = kept if exact else copy.kept
        return Choice(copy, None, got, got < copy.kept)
    groups = groups_for(kept, copy.blocks)
    there = round(groups / copy.blocks, PLACES)
    got = kept if exact else there
    return Choice(copy, groups if groups < copy.blocks else None, got, got < there)


def _read(choice: Choice) -> float:
    """Which part of the version is read."""
    if choice.copy.blocks and choice.groups is not None:
        return choice.groups / choice.copy.blocks
    return 1.0
