"""Aggregates over a selection's matches for any window, in O(log n): a tree over the hot blocks in time order (P12).

A leaf holds the partial aggregates of the matches in each piece of a block, an inner node those of its subtree. A
window takes whole nodes where they lie inside it, descends where it cuts, and takes what is left from the rows
themselves, so answers are exact to the row. What the nodes hold is a cache: losing it costs time, never an answer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import duckdb
import numpy as np
import pyarrow as pa

from millpond.answers.row_queries.shapes import Leaf, Node, Shapes
from millpond.answers.row_queries.stretch import Matching, Stretch, parts_in
from millpond.operators.windowed.evaluation import no_panes
from millpond.support.errors import QueryError
from millpond.support.sql import quote
from millpond.synopses import (
    PanesSpec,
    components_of,
    connection,
    finish_windows,
    is_holistic,
    merge_partials,
    partial,
    query_ordered,
)
from millpond.synopses.aggregates.splits import OPERATIONS
from millpond.synopses.finish import empty_answers, fold_pairs, fold_windows, unnamed
from millpond.synopses.folds import fold_columns
from millpond.synopses.pane_partials import over_all_time, panes_spec
from millpond.synopses.tolerance import one_line
from millpond.types import Column, GroupScan, StreamDefinition, WindowQuery, columns_read

#: Rows of a block that one leaf partial stands for: an answer reads fewer rows than this at each cut of a block.
PIECE = 4_096

#: Groups and pieces above which a leaf keeps one partial for its block: pieces with so many groups save nothing.
FINE = 2_048

#: Matching rows that are aggregated at a time.
ROWS_AT_ONCE = 262_144

#: Rows of a grouped answer with ORDER BY and no LIMIT.
_ALL = 2**53

#: What a small table costs beside its values.
_OVERHEAD = 600

_PIECE = "_piece_of"

#: Kinds of components that arrays combine without a statement.
_FOLDED = ("add", "moments", "comoments", *OPERATIONS)

#: What the evaluation of an expression over rows can raise.
FAULTS = (duckdb.Error, pa.ArrowException, OverflowError)


@dataclass
class Touched:
    """What an answer read: tree nodes and rows at its edges; and what had to be built first, from how many rows.

    whole: how many of the nodes were taken whole. tree: whether a tree served at all.
    """

    nodes: int = 0
    whole: int = 0
    rows: int = 0
    built_nodes: int = 0
    built_rows: int = 0
    tree: bool = True

    def __str__(self) -> str:
        if not self.tree:
            return f"{self.rows} rows, without a tree"
        built = f"; {self.built_nodes} nodes built from {self.built_rows} rows" if self.built_nodes else ""
        return f"{self.nodes} nodes ({self.whole} whole), {self.rows} rows at the edges{built}"


@dataclass
class _Pieces:
    """The partials of a block's pieces (`pane` is the number of the piece); `fine`: pieces were kept apart."""

    table: pa.Table | None
    fine: bool


@dataclass
class _Tree:
    """What one query keeps: partials by leaf and by node of the shapes, which die with the blocks."""

    query: GroupScan
    spec: PanesSpec
    columns: list[str]
    leaves: WeakKeyDictionary[Leaf, _Pieces] = field(default_factory=WeakKeyDictionary)
    nodes: WeakKeyDictionary[Node, pa.Table | None] = field(default_factory=WeakKeyDictionary)
    lock: threading.Lock = field(default_factory=threading.Lock)
    nbytes: int = 0
    hopeless: bool = False

    def weigh(self) -> int:
        """Bytes that it holds now."""
        tables = [p.table for p in self.leaves.values()] + list(self.nodes.values())
        self.nbytes = sum(100 if t is None else t.nbytes + _OVERHEAD + 100 * t.num_columns for t in tables)
        return self.nbytes


class Trees:
    """The aggregate trees of a pond's selections. Thread-safe; bounded by dropping what was used least recently.

    Arguments:
        budget: bytes that all trees together may hold.

    >>> trees = Trees(64 << 20)
    >>> trees.nbytes
    0
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._trees: OrderedDict[Hashable, _Tree] = OrderedDict()
        self._shapes = Shapes()
        self._lock = threading.Lock()

    def answer(
        self,
        key: Hashable,
        query: GroupScan,
        stream: StreamDefinition,
        blocks: Sequence[Any],
        matching: Matching,
        stretch: Stretch,
        older: Iterable[pa.Table] = (),
    ) -> tuple[pa.Table, Touched]:
        """The answer of a grouped query over its matches in a stretch: HAVING, select list, ORDER BY, LIMIT applied.

        Arguments:
            key: who asks, e.g. (query id, stream id); what was kept under it must have had the same query, stream
                and matching.
            query: grouped; its `where` does not count, matches are what `matched_rows` gives.
            blocks: the hot blocks of one view, immutable; they may overlap in time.
            matching: the query's matching rows of a block.
            older: matching rows of the stretch that are in no block (from the archive), in batches.

        Raises:
            QueryError: an expression fails on a row of the stretch, or the answer is beyond what its types hold.
        """
        touched = Touched()
        tree = self._tree(key, query, stream)
        if not tree.hopeless:
            older = list(older)
            try:
                with tree.lock:
                    root = self._shapes.of(stream.id, blocks)
                    return _answer(tree, stream, root, matching, stretch, older, touched)
            except FAULTS:
                # A row outside of the stretch can be what failed: only the rows themselves tell.
                tree.hopeless = True
            finally:
                if touched.built_nodes:
                    self._shrink(key, tree)
        touched = Touched(tree=False)
        batches = _counted(_batches(blocks, matching, stretch, tree.columns), touched)
        return aggregate_rows(query, stream, (t for source in (older, batches) for t in source)), touched

    def forget(self, key: Hashable) -> None:
        """Drop what is kept for one query."""
        with self._lock:
            self._trees.pop(key, None)

    @property
    def nbytes(self) -> int:
        """Bytes that the trees hold."""
        with self._lock:
            return sum(t.nbytes for t in self._trees.values())

    def sizes(self) -> dict[Hashable, int]:
        """Bytes by key."""
        with self._lock:
            return {k: t.nbytes for k, t in self._trees.items()}

    def _tree(self, key: Hashable, query: GroupScan, stream: StreamDefinition) -> _Tree:
        with self._lock:
            tree = self._trees.get(key)
            if tree is None or tree.query != query:
                spec = _spec(query, stream)
                columns = _columns(spec, stream)
                tree = _Tree(query, spec, columns, hopeless=any(is_holistic(a) for a in query.aggregates))
                self._trees[key] = tree
            self._trees.move_to_end(key)
            return tree

    def _shrink(self, key: Hashable, tree: _Tree) -> None:
        with tree.lock:
            if tree.weigh() > self.budget:
                tree.leaves.clear()
                tree.nodes.clear()
                tree.nbytes, tree.hopeless = 0, True
        with self._lock:
            total = sum(t.nbytes for t in self._trees.values())
            for other in [k for k in self._trees if k != key]:
                if total <= self.budget:
                    break
                total -= self._trees.pop(other).nbytes


def aggregate_rows(query: GroupScan, stream: StreamDefinition, batches: Iterable[pa.Table]) -> pa.Table:
    """The answer of a grouped query from the matching rows themselves, in batches of engine rows.

    Raises:
        QueryError: an expression fails on a row, or a sum is beyond what its type holds.
    """
    db = connection()
    spec = _spec(query, stream)
    try:
        parts = [partial(db, spec, rows) for rows in batches if rows.num_rows]
        merged = merge_partials(db, spec, parts)
        return _finish(query, spec, stream, merged)
    except FAULTS as error:
        raise _failed(error) from error


def order_matters(query: GroupScan, time: str) -> bool:
    """Whether an aggregate of the query depends on the order of the rows (first, lists, ties of arg_max).

    Arguments:
        time: the event-time column.
    """
    made = [sql for a in query.aggregates for c in components_of(a, time).components for _, sql in c.columns]
    return "_id" in columns_read(*made)


def _failed(error: Exception) -> QueryError:
    return QueryError(f"the query cannot be answered: {one_line(error)}")


def _answer(
    tree: _Tree,
    stream: StreamDefinition,
    root: Node | None,
    matching: Matching,
    stretch: Stretch,
    older: Iterable[pa.Table],
    touched: Touched,
) -> tuple[pa.Table, Touched]:
    db = connection()
    walk = _Walk(stretch, touched)
    walk.visit(root)
    _build_leaves(tree, [*walk.cut, *_leaves_below(tree, walk.whole)], matching, touched)
    _build_nodes(tree, walk.whole, touched)
    parts = [tree.nodes[n] for n in walk.whole]
    edges: list[tuple[Any, np.ndarray[Any, Any]]] = []
    for leaf in walk.cut:
        block = leaf.block
        low, high = stretch.rows_of(block)
        pieces = tree.leaves[leaf]
        first, last = -(-low // PIECE), (high if high < len(block.times) else high + PIECE - 1) // PIECE
        if low == 0 and high == len(block.times):
            parts.append(pieces.table)
            continue
        if pieces.fine and first < last:
            parts.append(_panes_between(pieces.table, first, last))
            runs = [(low, first * PIECE), (last * PIECE, high)]
        else:
            runs = [(low, high)]
        for start, stop in runs:
            if start < stop and len(rows := matching(block, start, stop)):
                edges.append((block, rows))
                touched.rows += len(rows)
    sources: list[pa.Table] = [*older]
    if edges:
        sources.append(pa.concat_tables([b.rows.select(tree.columns).take(pa.array(rows)) for b, rows in edges]))
    parts += [partial(db, tree.spec, rows) for rows in sources if rows.num_rows]
    merged = _together(db, tree.spec, [p for p in parts if p is not None and p.num_rows])
    return _finish(tree.query, tree.spec, stream, merged), touched


class _Walk:
    """Which nodes a stretch takes whole, and which leaves it cuts."""

    def __init__(self, stretch: Stretch, touched: Touched) -> None:
        self.stretch, self.touched = stretch, touched
        self.whole: list[Node] = []
        self.cut: list[Leaf] = []

    def visit(self, node: Node | None) -> None:
        """Descend from a node."""
        if node is None or self.stretch.apart(node.low, node.high):
            return
        self.touched.nodes += 1
        if self.stretch.holds(node.low, node.high):
            self.touched.whole += 1
            self.whole.append(node)
            return
        self.visit(node.left)
        if not self.stretch.apart(node.leaf.low, node.leaf.high):
            self.cut.append(node.leaf)
        self.visit(node.right)


def _leaves_below(tree: _Tree, nodes: Iterable[Node]) -> list[Leaf]:
    """The leaves that nodes without a partial need."""
    return [n.leaf for n in _missing(tree, nodes)]


def _missing(tree: _Tree, nodes: Iterable[Node]) -> list[Node]:
    """Nodes without a partial, of the given ones and those below, children before parents."""
    found: list[Node] = []
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in tree.nodes:
            found.append(node)
            stack += [c for c in (node.left, node.right) if c is not None]
    return sorted(found, key=lambda n: n.height)


def _build_leaves(tree: _Tree, leaves: Sequence[Leaf], matching: Matching, touched: Touched) -> None:
    batch: list[tuple[Leaf, Any, np.ndarray[Any, Any]]] = []
    waiting = 0
    for leaf in leaves:
        if leaf in tree.leaves:
            continue
        block = leaf.block
        rows = matching(block, 0, len(block.times))
        touched.built_nodes += 1
        touched.built_rows += len(rows)
        if not len(rows):
            tree.leaves[leaf] = _Pieces(None, True)
            continue
        batch.append((leaf, block, rows))
        waiting += len(rows)
        if waiting >= ROWS_AT_ONCE:
            _aggregate_leaves(tree, batch)
            batch, waiting = [], 0
    if batch:
        _aggregate_leaves(tree, batch)


def _aggregate_leaves(tree: _Tree, batch: Sequence[tuple[Leaf, Any, np.ndarray[Any, Any]]]) -> None:
    db = connection()
    width = max(1, *(-(-len(b.times) // PIECE) for _, b, _ in batch))
    rows = pa.concat_tables([b.rows.select(tree.columns).take(pa.array(r)) for _, b, r in batch])
    piece = np.concatenate([i * width + r.astype(np.int64) // PIECE for i, (_, _, r) in enumerate(batch)])
    table = partial(db, tree.spec, rows.append_column(_PIECE, pa.array(piece)), f"{_PIECE} AS {_PIECE}")
    pane = table[_PIECE].to_numpy()
    table = table.drop_columns([_PIECE])
    for i, part in enumerate(_split(table, pane // width, len(batch))):
        if part is None:
            tree.leaves[batch[i][0]] = _Pieces(None, True)
            continue
        numbers, own = part
        own = _with_panes(own, pane[numbers] % width)
        fine = own.num_rows <= FINE
        if not fine:
            own = _merge(db, tree.spec, [_at_pane(own, 0)])
        tree.leaves[batch[i][0]] = _Pieces(own, fine)


def _build_nodes(tree: _Tree, nodes: Sequence[Node], touched: Touched) -> None:
    """Level by level from below, so that a whole level costs one statement."""
    db = connection()
    missing = _missing(tree, nodes)
    at = 0
    while at < len(missing):
        level = [n for n in missing[at:] if n.height == missing[at].height]
        at += len(level)
        parts: list[pa.Table] = []
        for number, node in enumerate(level):
            below = [tree.nodes[c] for c in (node.left, node.right) if c is not None]
            parts += [_at_pane(p, number) for p in (*below, tree.leaves[node.leaf].table) if p is not None]
        merged = _merge(db, tree.spec, parts)
        touched.built_nodes += len(level)
        if not merged.num_rows:
            tree.nodes.update(dict.fromkeys(level))
            continue
        split = _split(merged, merged["pane"].to_numpy(), len(level))
        for node, own in zip(level, split, strict=True):
            tree.nodes[node] = None if own is None else own[1]


def _split(
    table: pa.Table, number: np.ndarray[Any, Any], count: int
) -> list[tuple[np.ndarray[Any, Any], pa.Table] | None]:
    """(row numbers, rows) with number 0, 1, …, count-1; None where there are none."""
    order = np.argsort(number, kind="stable")
    ordered = table.take(pa.array(order)).combine_chunks()
    bounds = np.searchsorted(number[order], np.arange(count + 1))
    return [
        (order[low:high], ordered.slice(low, high - low)) if low < high else None
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]


def _with_panes(table: pa.Table, panes: np.ndarray[Any, Any]) -> pa.Table:
    return table.set_column(table.schema.get_field_index("pane"), "pane", pa.array(panes, pa.int64()))


def _at_pane(table: pa.Table, pane: int) -> pa.Table:
    return _with_panes(table, np.full(table.num_rows, pane, np.int64))


def _panes_between(table: pa.Table | None, first: int, last: int) -> pa.Table | None:
    if table is None:
        return None
    pane = table["pane"].to_numpy()
    return table.filter(pa.array((pane >= first) & (pane < last)))


def _merge(db: duckdb.DuckDBPyConnection, spec: PanesSpec, parts: Sequence[pa.Table]) -> pa.Table:
    """As `merge_partials`, for parts in which a pane can recur."""
    parts = [p for p in parts if p.num_rows]
    if not parts:
        return pa.table({})
    table = pa.concat_tables(parts, promote_options="permissive")
    if table.num_rows == 1:
        return table
    pane = table["pane"].to_numpy()
    order = np.argsort(pane, kind="stable")
    # Dealt out alternately in order of panes, one that has several rows is in the range of both halves.
    return merge_partials(db, spec, [table.take(pa.array(order[0::2])), table.take(pa.array(order[1::2]))])


def _together(db: duckdb.DuckDBPyConnection, spec: PanesSpec, parts: Sequence[pa.Table]) -> pa.Table:
    """One row per group from all parts."""
    if spec.keys or not parts or not all(c.kind in _FOLDED for c in spec.components):
        return _merge(db, spec, [_at_pane(p, 0) for p in parts])
    table = pa.concat_tables(parts, promote_options="permissive")
    low, high = np.zeros(1, np.int64), np.full(1, table.num_rows, np.int64)
    return pa.table({"pane": pa.array(low), **fold_columns(db, spec.components, table, low, high)})


def _batches(blocks: Sequence[Any], matching: Matching, stretch: Stretch, columns: Sequence[str]) -> Iterable[pa.Table]:
    """Matching rows of a stretch, in batches of bounded size; in no order that counts for aggregates."""
    batch: list[pa.Table] = []
    waiting = 0
    for block, rows in parts_in(blocks, matching, stretch):
        batch.append(block.rows.select(columns).take(pa.array(rows)))
        waiting += len(rows)
        if waiting >= ROWS_AT_ONCE:
            yield pa.concat_tables(batch)
            batch, waiting = [], 0
    if batch:
        yield pa.concat_tables(batch)


def _counted(batches: Iterable[pa.Table], touched: Touched) -> Iterable[pa.Table]:
    for batch in batches:
        touched.rows += batch.num_rows
        yield batch


def _everything(query: GroupScan, time: str) -> WindowQuery:
    """The query with a window that holds all of time; what matches is decided before."""
    limit = _ALL if query.order_by and query.limit is None else query.limit
    return replace(over_all_time(query, time), where=None, limit=limit)


def _spec(query: GroupScan, stream: StreamDefinition) -> PanesSpec:
    return panes_spec(_everything(query, stream.options.time), stream)


def _columns(spec: PanesSpec, stream: StreamDefinition) -> list[str]:
    return [*spec.columns_of(stream), "_id"]


def _finish(query: GroupScan, spec: PanesSpec, stream: StreamDefinition, merged: pa.Table) -> pa.Table:
    """The answer from partials of pane 0, one row per group."""
    db = connection()
    everything = unnamed(_everything(query, stream.options.time))
    names = [o.name for o in everything.select]
    if merged.num_rows:
        folded = fold_windows(db, spec, everything, merged, 0, 1)
    elif not query.keys:  # SQL's answer of an ungrouped aggregate over no rows is one row
        one = (np.zeros(1, np.int64), np.ones(1, np.int64))
        folded = fold_pairs(db, spec, everything, no_panes(), np.empty(0, np.int64), one, empty=True)
    else:
        return empty_answers(db, [Column(o.name, o.type) for o in query.select])
    answers = finish_windows(db, everything, stream.options.time, folded).select(names)
    shown = [o.name for o in query.select]
    if query.order_by or answers.num_rows <= 1:
        return answers.rename_columns(shown)
    listed = ", ".join(map(quote, names))
    return query_ordered(db, f"SELECT {listed} FROM answers ORDER BY {listed}", answers=answers).rename_columns(shown)
