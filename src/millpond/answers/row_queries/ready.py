"""What an open pond keeps ready for invocations: hot rows, row sets, aggregate trees, pairs, plans. All is a cache."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from millpond.answers.row_queries.hot import HotStore
from millpond.answers.row_queries.keeping import Keeper
from millpond.answers.row_queries.matched_rows import RowSets
from millpond.answers.row_queries.pair_caches import PairCaches
from millpond.answers.row_queries.trees import Trees
from millpond.engine.pond_view import PondView

if TYPE_CHECKING:
    from millpond.answers.row_queries.plans import Plan

K = TypeVar("K")
V = TypeVar("V")

_making = threading.Lock()


class Recent(Generic[K, V]):
    """A thread-safe map that forgets what was used least recently."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The value, or None."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: K, value: V) -> None:
        """Keep a value."""
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def forget(self, key: K) -> None:
        """Drop a value."""
        with self._lock:
            self._kept.pop(key, None)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._kept.clear()


class Ready:
    """Everything that is kept ready in one process for one pond.

    Arguments:
        pond: what is answered from.
        budget: bytes for all of it: half for hot rows and their indexes, a quarter for row sets, the rest for
            aggregate trees, pairs of joins and complete answers.
    """

    def __init__(self, pond: PondView, budget: int) -> None:
        self.pond = pond
        self.sets = RowSets(budget // 4)
        self.trees = Trees(budget // 12)
        self.pairs = PairCaches(budget // 12)
        self.keeper = Keeper(budget // 12, self._release)
        self.plans: Recent[int, Plan] = Recent(4096)
        self.hot = HotStore(pond.archives, budget // 2, self._gone)

    def resize(self, budget: int) -> None:
        """Go by another budget; what is too much goes with the next rows and invocations."""
        self.sets.budget = budget // 4
        self.trees.budget = self.pairs.budget = self.keeper.budget = budget // 12
        self.hot.hot_bytes = budget // 2

    def _gone(self, blocks: Iterable[int]) -> None:
        self.sets.forget(blocks)

    def refresh(self, streams: Iterable[int] = ()) -> None:
        """After a publish: load the rows of new epochs of all hot streams, and of `streams`."""
        self.hot.refresh(streams)

    def stop(self) -> None:
        """Wait until that has ended; call it when the pond has begun to close."""
        self.hot.stop()

    def _release(self, queries: Iterable[int]) -> None:
        self._drop_caches(list(queries))

    def forget(self, *queries: int) -> None:
        """Queries were dropped."""
        for query in queries:
            self.keeper.drop(query)
        self._drop_caches(queries)

    def altered(self, stream: int) -> None:
        """The columns of a stream have changed: what was made of its rows is made again when it is wanted."""
        self.hot.forget(stream)
        self.plans.clear()

    def fitted(self, stream: int, queries: Sequence[int]) -> None:
        """Queries on a stream have other definitions now: what was kept ready for them is made again."""
        self.altered(stream)  # what somebody makes this moment by an old definition belongs to blocks that are gone
        self._drop_caches(queries)
        self.keeper.outdated(queries)

    def _drop_caches(self, queries: Sequence[int]) -> None:
        self.sets.forget(queries=queries)
        for query in queries:
            self.trees.forget(query)
            self.pairs.forget(query)
            self.plans.forget(query)

    def statistics(self) -> dict[str, int]:
        """Bytes by part."""
        return {
            "hot": self.hot.nbytes,
            "matches": self.sets.nbytes,
            "trees": self.trees.nbytes,
            "pairs": self.pairs.nbytes,
            "answers": self.keeper.nbytes,
        }


def ready_of(pond: PondView) -> Ready:
    """What is kept ready for who answers from a view; made when first asked for, bounded by the setting `hot_bytes`."""
    kept = vars(pond)
    found = kept.get("_ready")
    if found is None:
        with _making:
            found = kept.get("_ready")
            if found is None:
                found = kept["_ready"] = Ready(pond, pond.settings.hot_bytes)
    return cast(Ready, found)
