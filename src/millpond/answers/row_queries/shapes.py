"""The shape of aggregate trees: which nodes stand over which blocks. Shared by all queries on a stream.

The tree is a treap whose priorities come from the blocks themselves, so its shape depends on the set of blocks alone:
appending a block, taking the oldest away or replacing some at the end changes O(log n) nodes, and all others are the
very objects of the view before, under which queries have kept their partials.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

from millpond.answers.row_queries.stretch import bounds_of


class Leaf:
    """A block's place in the tree; holds the block weakly, so that shapes keep no rows alive."""

    __slots__ = ("__weakref__", "_block", "high", "low", "priority")

    def __init__(self, block: Any) -> None:
        self._block = weakref.ref(block)
        self.low, self.high = bounds_of(block)
        self.priority = _mixed(int(block.ids[0]) * 31 + int(block.ids[-1]) * 7 + len(block.ids))

    @property
    def block(self) -> Any:
        """The block, which whoever asks has in a view."""
        block = self._block()
        assert block is not None, "the view that the tree was made for has been dropped"
        return block

    def of(self, block: Any) -> bool:
        """Whether it stands for this very block."""
        return self._block() is block


class Node:
    """An inner node: a block and what is before and behind it. low, high: the times of all of that."""

    __slots__ = ("__weakref__", "height", "high", "leaf", "left", "low", "right")

    def __init__(self, leaf: Leaf, left: Node | None, right: Node | None) -> None:
        self.leaf, self.left, self.right = leaf, left, right
        below = [n for n in (left, right) if n is not None]
        self.height: int = 1 + max((n.height for n in below), default=0)
        # Blocks can overlap in time, so neither bound need be that of the outermost block.
        self.low: int = min(leaf.low, *(n.low for n in below)) if below else leaf.low
        self.high: int = max(leaf.high, *(n.high for n in below)) if below else leaf.high


class Shapes:
    """The latest shape of each stream; nodes are reused from one view to the next. Thread-safe."""

    def __init__(self) -> None:
        self._latest: dict[int, _Shape] = {}
        self._lock = threading.Lock()

    def of(self, stream: int, blocks: Sequence[Any]) -> Node | None:
        """The root over the blocks that have rows; None when there are none.

        Arguments:
            stream: the stream's id.
            blocks: the blocks of one view.
        """
        with self._lock:
            latest = self._latest.get(stream, _NONE)
            identity = tuple(id(b) for b in blocks if len(b.times))
            if identity == latest.identity and all(latest.leaves[id(b)].of(b) for b in blocks if len(b.times)):
                return latest.root
            shape = _Shape(latest, identity, [b for b in blocks if len(b.times)])
            self._latest[stream] = shape
            return shape.root

    def forget(self, stream: int) -> None:
        """Drop the shape of a stream."""
        with self._lock:
            self._latest.pop(stream, None)


class _Shape:
    def __init__(self, before: _Shape | None, identity: tuple[int, ...], blocks: Sequence[Any]) -> None:
        self.identity = identity
        self.leaves: dict[int, Leaf] = {}
        self.nodes: dict[tuple[int, int, int], Node] = {}
        for block in blocks:
            known = before.leaves.get(id(block)) if before is not None else None
            self.leaves[id(block)] = known if known is not None and known.of(block) else Leaf(block)
        order = sorted(blocks, key=lambda b: (int(b.times[0]), int(b.ids[0])))
        self.root = self._build([self.leaves[id(b)] for b in order], before.nodes if before is not None else {})

    def _build(self, leaves: Sequence[Leaf], known: dict[tuple[int, int, int], Node]) -> Node | None:
        """The Cartesian tree of the priorities, by a stack of the right spine."""
        spine: list[tuple[Leaf, Node | None]] = []
        for leaf in leaves:
            last: Node | None = None
            while spine and spine[-1][0].priority < leaf.priority:
                top, left = spine.pop()
                last = self._node(top, left, last, known)
            spine.append((leaf, last))
        root: Node | None = None
        while spine:
            top, left = spine.pop()
            root = self._node(top, left, root, known)
        return root

    def _node(self, leaf: Leaf, left: Node | None, right: Node | None, known: dict[tuple[int, int, int], Node]) -> Node:
        key = (id(leaf), id(left), id(right))
        # Parts of a known node are alive as long as it is, so equal ids are the same objects.
        node = known.get(key) or Node(leaf, left, right)
        self.nodes[key] = node
        return node


_NONE = _Shape(None, (), ())


def _mixed(x: int) -> int:
    """SplitMix64's finish: priorities that do not follow the blocks' order."""
    x &= 0xFFFFFFFFFFFFFFFF
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return x ^ (x >> 31)
