"""Which files of state an epoch merges into fewer, and which it removes: a pure decision."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from millpond.manifests.query_progress import QueryProgress
from millpond.progress import FOREVER
from millpond.tables import Segment
from millpond.types.options import Settings

#: State files of one level and shard that are merged into one of the next; larger files are left alone.
LARGE_STATE = 32 << 20


def expired(state: Sequence[Segment], need: int) -> tuple[str, ...]:
    """The files whose last row lies before `need` (microseconds), which nobody needs any more."""
    return tuple(sorted(s.path for s in state if s.high < need))


def merged(
    state: Sequence[Segment], expire: Collection[str], queries: Iterable[QueryProgress], settings: Settings
) -> dict[str, tuple[str, ...]]:
    """Per shard, files to merge: those of the lowest level of which there are `compact_files` or more.

    Args:
        expire: files that are removed.
        queries: a paused one will need to tell what came before its pause from what came in it.
    """
    found: dict[str, tuple[str, ...]] = {}
    pauses = sorted(q.paused for q in queries if q.paused is not None)
    for shard in range(settings.shards):
        levels: dict[tuple[int, int, bool], list[Segment]] = defaultdict(list)
        for segment in state:
            # What holds rows for windows that end with rows never expires, so it is put together whatever its size.
            small = segment.size < LARGE_STATE or segment.high >= FOREVER
            if segment.shard == shard and small and segment.path not in expire:
                levels[segment.level, bisect_right(pauses, segment.last_epoch), segment.high >= FOREVER].append(segment)
        for _, group in sorted(levels.items()):
            if len(group) >= settings.compact_files:
                found[str(shard)] = tuple(sorted(s.path for s in group))
                break
    return found
