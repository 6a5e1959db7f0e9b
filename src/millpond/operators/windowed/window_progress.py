"""What windows know of the progress of a query, beside what all kinds do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from millpond.manifests.query_progress import OwnProgress, QueryProgress, as_before, by_shard, largest, news, smallest
from millpond.progress import NEVER


@dataclass(frozen=True)
class Held:
    """Windows with after < end <= until (microseconds) that closed at clock reading `since` and whose answers go out
    slot by slot: those of slots before `place` are out."""

    after: int
    until: int
    since: int
    place: int = 0


@dataclass(frozen=True)
class WindowProgress(OwnProgress):
    """How far a query over windows has answered.

    first: end of the first window with data, from which on `empty='report'` reports.
    groups: groups whose windows are closed further than `closed`, on a stream with bounds of groups (microseconds).
    covered: retention had removed rows before this instant when the query's back-fill read the archive: windows that
        start before it are answered from what was left.
    early_at: the clock reading of its last early answers. stirred: whether rows of its stream came since; both only
        with the option `early`. held: windows whose answers are going out by and by, with the option `flush`.
    reduced: stretches of event time of which its back-fill has left out rows (REDUCE): windows that meet one are
        estimates.
    dropped: the largest fraction that was left out of them.
    scanned: what its back-fill read, in words, where that was reduced.
    coarse: (low, high, interval): where it has seen rows at the start of their interval.
    """

    word: ClassVar[str] = "windows"

    first: int | None = by_shard(smallest, None)
    groups: dict[str, int] = field(default_factory=dict, metadata={"rule": news})
    covered: int = by_shard(as_before, NEVER)
    early_at: int = by_shard(largest, NEVER)
    stirred: bool = by_shard(largest, False)
    held: tuple[Held, ...] = by_shard(news, ())
    reduced: tuple[tuple[int, int], ...] = by_shard(news, ())
    dropped: float = by_shard(news, 0.0)
    scanned: str = by_shard(news, "")
    coarse: tuple[tuple[int, int, int], ...] = by_shard(news, ())


#: The progress of a query over windows.
Windowed: TypeAlias = QueryProgress[WindowProgress]


def answered(progress: Windowed) -> int:
    """Windows that end at or before it have been answered altogether (microseconds)."""
    return min([progress.closed, *(h.after for h in progress.own.held)])
