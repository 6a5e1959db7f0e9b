"""What a process keeps of shards from one epoch to the next, and the one rule that says when it may be used.

Files are what counts: whatever is kept may be lost at any moment, and an epoch writes the same bytes with it and
without.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Version:
    """Up to which epoch a pond's state goes, and in which of its histories.

    An opening of a pond has one history: it writes the manifest of an epoch once, each on top of the one before. A pond
    that is copied, or put back to what it was earlier, is opened anew.

    Args:
        pond: its folder.
        opening: which opening of the pond wrote the manifest of the epoch; '': that is not known.
        epoch: the state is as of its end.
    """

    pond: str
    opening: str
    epoch: int


@dataclass(frozen=True)
class Kept(Generic[T]):
    """What was kept at the end of an epoch."""

    epoch: int
    value: T


class ShardCache(Generic[T]):
    """Values by shard and by who owns them there, such as a synopsis, a store or a query; and by parts of these.

    One rule says what may be used: what was kept by the same opening of the same pond, at the end of the asking epoch
    or of one before. What happened in between is for the asker to add. Safe for several threads, if values are never
    changed once they are kept.

    >>> cache = ShardCache[str]()
    >>> cache.put(Version("pond", "first", 7), "q1", 0, "seven")
    >>> cache.get(Version("pond", "first", 8), "q1", 0)
    Kept(epoch=7, value='seven')
    >>> cache.get(Version("pond", "first", 6), "q1", 0), cache.get(Version("pond", "second", 8), "q1", 0)
    (None, None)
    """

    _all: ClassVar[weakref.WeakSet[ShardCache[Any]]] = weakref.WeakSet()

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], tuple[str, Kept[T]]] = {}
        ShardCache._all.add(self)

    def get(self, version: Version, owner: str, shard: int, *part: Any) -> Kept[T] | None:
        """The last that was kept, if the rule allows it."""
        opening, kept = self._kept.get((version.pond, owner, shard, *part), ("", None))
        if kept is None or not opening or opening != version.opening or kept.epoch > version.epoch:
            return None
        return kept

    def put(self, version: Version, owner: str, shard: int, value: T, *part: Any) -> None:
        """Keep a value as of the end of an epoch, in the place of what was kept before."""
        if version.opening:
            self._kept[version.pond, owner, shard, *part] = version.opening, Kept(version.epoch, value)

    def drop(self, version: Version, owner: str, shard: int, *part: Any) -> None:
        """Keep nothing."""
        self._kept.pop((version.pond, owner, shard, *part), None)

    def parts(self, version: Version, owner: str, shard: int) -> Iterator[tuple[tuple[Any, ...], Kept[T] | None]]:
        """The parts of which something is kept, with what may be used of it."""
        for key in [k for k in list(self._kept) if k[:3] == (version.pond, owner, shard)]:
            yield key[3:], self.get(version, owner, shard, *key[3:])

    def everything(self) -> list[Kept[T]]:
        """All that is kept, of whatever pond (tests)."""
        return [kept for _, kept in self._kept.values()]

    def clear(self) -> None:
        """Keep nothing at all."""
        self._kept.clear()


def forget(pond: str, owners: Collection[str] = ()) -> None:
    """Drop from all caches what a pond has kept, but for some owners: the others are not there any more."""
    for cache in list(ShardCache._all):
        for key in [k for k in list(cache._kept) if k[0] == pond and k[1] not in owners]:
            cache._kept.pop(key, None)


def clear_all() -> None:
    """Keep nothing in any cache, as a new process."""
    for cache in list(ShardCache._all):
        cache.clear()
