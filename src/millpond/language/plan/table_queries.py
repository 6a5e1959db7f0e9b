"""SELECTs over answers, tables and side streams: DuckDB SQL over generated names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from millpond.language.check.described import describe_over
from millpond.language.check.joins_written import check_conditions, check_joins
from millpond.language.check.relation_nodes import check_nodes
from millpond.language.plan.answer_bounds import Ends, ends_asked
from millpond.language.render.rendering import render
from millpond.language.resolve.relation_refs import RelationRef, StreamItem, free_prefix, with_relations
from millpond.language.resolve.relation_values import with_values
from millpond.language.resolve.schema import Schema
from millpond.language.resolve.select_list import with_names
from millpond.language.rewrite.validity import hold_in_time
from millpond.language.syntax.source_text import Source
from millpond.types import Column, InnerStream, ScanQuery, WindowedQuery


@dataclass(frozen=True)
class TableQuery:
    """A SELECT over tables: DuckDB SQL over `relations`; `columns` are those of its answer.

    columns: None: the data decide which there are (PIVOT without IN).
    ends: which windows of queries' answers it can show, by the alias of the relation (see `answer_bounds`).
    asked: what is asked of a stream, by the alias of the relation (a `StreamInput`) that the answer is.
    inner: streams that this reads, and that are answers of standing queries.
    """

    sql: str
    relations: tuple[RelationRef, ...]
    columns: tuple[Column, ...] | None
    text: str = ""
    ends: Mapping[str, Ends] = field(default_factory=dict)
    asked: Mapping[str, WindowedQuery | ScanQuery] = field(default_factory=dict)
    inner: tuple[InnerStream, ...] = ()


def bind_relation(select: exp.Expr, text: str, source: Source, schema: Schema) -> TableQuery:
    """Check a SELECT without streams and render it over generated relation names.

    Raises:
        StatementError: a name that does not exist, a function or syntax that is not available, a wrong type.
    """
    tree, refs = bound_tree(select, source, schema)
    return finished(tree, refs, select, text, source)


def finished(tree: exp.Expr, refs: tuple[RelationRef, ...], select: exp.Expr, text: str, source: Source) -> TableQuery:
    """The query that a checked SELECT over generated names is.

    Arguments:
        select: as it was written, for errors.
    Raises: StatementError for a type that does not fit.
    """
    ends = {ref.alias: ends_asked(tree, ref.alias) for ref in refs if ref.by_windows}
    open_ended = any(pivot.args.get("using") and not _listed(pivot) for pivot in tree.find_all(exp.Pivot))
    columns = None if open_ended else describe_over(tree, render, refs, select, source)
    return TableQuery(render(tree), refs, columns, text, ends)


def _listed(pivot: exp.Pivot) -> bool:
    """Whether PIVOT says which values become columns."""
    return all(isinstance(each, exp.In) for each in pivot.expressions)


def bound_tree(
    select: exp.Expr, source: Source, schema: Schema, stream_item: StreamItem | None = None
) -> tuple[exp.Expr, tuple[RelationRef, ...]]:
    """A checked copy of a SELECT in which generated names stand for the FROM items, and what they stand for.

    Arguments:
        stream_item: binds FROM items that are streams, each by itself; None: there are none.
    """
    check_nodes(select, source)
    check_joins(select, source, stream_item is None)
    tree = with_names(select)
    if stream_item is not None:
        tree = hold_in_time(tree, source, schema)
    check_conditions(tree, source)
    tree, refs = with_relations(tree, free_prefix(select), source, schema, stream_item)
    return with_values(tree, refs, source), refs
