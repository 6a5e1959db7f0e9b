"""SELECTs that may stand, and those that are asked once: each goes to the binder of its kind."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from millpond.language.conditions.factors import Marks
from millpond.language.plan import binding
from millpond.language.plan.continuous import bind_relational, is_relational
from millpond.language.plan.row_binding import Analysis, RowBinder
from millpond.language.plan.row_joins import JoinBinder
from millpond.language.plan.streams_as_tables import bind_over_streams
from millpond.language.plan.table_queries import TableQuery
from millpond.language.resolve.aggregate_windows import windowed_calls
from millpond.language.resolve.registered_calls import with_registered
from millpond.language.resolve.schema import Schema
from millpond.language.rewrite.other_times import over_other_times
from millpond.language.rewrite.top_rows import top_rows
from millpond.language.rewrite.unnamed_streams import (
    PAIRS_WORK,
    Split,
    WithInner,
    inner_stream,
    named,
    split,
    stream_of,
)
from millpond.language.rewrite.validity import with_tolerances
from millpond.language.syntax.flat_chains import SHALLOW
from millpond.language.syntax.nodes import window_of
from millpond.language.syntax.written_select import WrittenSelect
from millpond.types import (
    InnerStream,
    Query,
    RowQuery,
    ScanQuery,
    Staged,
    StreamDefinition,
)

_CONTRADICT = "a window in brackets and BEGIN … END contradict each other"


def bind_standing(written: WrittenSelect, schema: Schema) -> Query | Staged:
    """Bind the SELECT of a standing query.

    Arguments and errors as `bind_query`.

    Returns:
        A `RowQuery` where no stream has a window in brackets (whose answers are windows, or changes of a relation) and
        neither ISTREAM, DSTREAM nor RSTREAM is written; `Staged` over streams without a name.
    """
    written = over_other_times(written, schema)
    if (found := split(written, schema)) is not None:
        _refuse_bounds(written, _CONTRADICT)
        return _staged(written, found, schema)
    written = _dated(written, schema)
    if is_relational(written.tree):
        _refuse_bounds(written, _CONTRADICT)
        return bind_relational(written, schema)
    if not _has_windows(written):
        return bind_selection(written, schema)
    _refuse_bounds(written, _CONTRADICT)
    return binding.bind_query(written, schema)


def _dated(written: WrittenSelect, schema: Schema) -> WrittenSelect:
    """The SELECT as its kind knows it: windows behind tables of ASOF joins, and the first rows of each group."""
    tree = with_tolerances(written.tree, schema, written.source)
    relational = is_relational(tree)

    def in_windows(select: exp.Select) -> bool:
        calls = (call.find_ancestor(exp.Select) is select for call in windowed_calls(select, written.text))
        return not relational and (_behind_streams(select) or any(calls))

    tree = top_rows(tree, written.source, in_windows)
    return written if tree is written.tree else replace(written, tree=tree)


def _has_windows(written: WrittenSelect) -> bool:
    """Whether a window stands behind a stream or a call."""
    return _behind_streams(written.tree) or bool(windowed_calls(written.tree, written.text))


def _behind_streams(tree: exp.Expr) -> bool:
    return any(window_of(t) is not None for t in _tables(tree))


def bind_select(written: WrittenSelect, schema: Schema) -> Query | ScanQuery | TableQuery | Staged:
    """Bind an ad hoc SELECT.

    Arguments and errors as `bind_query`.

    Returns:
        A `RowQuery` when BEGIN … END is written; a `TableQuery` when FROM names answers, tables and side streams, or
        streams are needed as tables; `Staged` over streams without a name.
    """
    written = over_other_times(written, schema)
    if (found := split(written, schema)) is not None:
        _refuse_bounds(written, _CONTRADICT)
        return _staged(written, found, schema)
    written = _dated(written, schema)
    if is_relational(written.tree):
        _refuse_bounds(written, _CONTRADICT)
        return bind_relational(written, schema, standing=False)
    if written.bounds:
        named = [t.name for t in _tables(written.tree) if isinstance(t.this, exp.Identifier)]
        # A name that nothing has is an error of its own, whatever else is written.
        known = [schema.lookup(name) for name in named]
        rows = any(each is None or isinstance(each, StreamDefinition) for each in known)
        if rows and not _has_windows(written):
            return bind_selection(written, schema)
        _refuse_bounds(written, _CONTRADICT if _has_windows(written) else "BEGIN … END is for rows of streams")
    bound = binding.bind_select(written, schema)
    if bound is not None:
        return bound
    select = with_registered(written.tree, schema)
    return bind_over_streams(select, written.text, written.source, schema)


def _staged(written: WrittenSelect, found: Split, schema: Schema) -> Staged:
    """A query over streams without a name: these are bound first."""
    source = written.source
    inner: list[InnerStream] = []
    names: dict[str, StreamDefinition] = {}
    for unnamed in found.streams:
        bound = bind_standing(replace(written, tree=unnamed.select, bounds=()), schema)
        if isinstance(bound, Staged):
            query = bound.query
            renamed: dict[str, str] = {}  # those of pairs of pairs read one another
            for each in bound.inner:
                own = each.query
                for name, new in renamed.items():
                    own = named(own, name, new)
                further = replace(each, name=f"{each.name} within {unnamed.name}", query=own)
                inner.append(further)
                renamed[each.name] = further.name
                query = named(query, each.name, further.name)
            bound = query
        inner.append(inner_stream(unnamed, bound, source))
        names[unnamed.name] = stream_of(inner[-1])
    outer = bind_standing(replace(written, tree=found.select, bounds=()), WithInner(schema, names))
    if isinstance(outer, RowQuery | Staged):
        raise source.error("a join in parentheses needs a window behind them", found.streams[0].select, PAIRS_WORK)
    return Staged(outer, tuple(inner))


def bind_selection(written: WrittenSelect, schema: Schema) -> RowQuery:
    """Bind a SELECT over the rows of one stream, or of several with join factors.

    Arguments and errors as `bind_query`.

    Returns:
        The selection; its `query.where` is None, or, over several streams, what is neither one side's own nor a join
        factor. Of several comparisons that bring a stream in the first equality is the factor, else the first of them.
    """
    return analyse(written, schema).selection()


def _tables(select: exp.Expr) -> list[exp.Table]:
    """The FROM items of a plain SELECT that are names."""
    if not isinstance(select, exp.Select) or (clause := select.args.get("from_")) is None:
        return []
    items = [clause.this, *(join.this for join in select.args.get("joins") or ())]
    return [item for item in items if isinstance(item, exp.Table)]


def _refuse_bounds(written: WrittenSelect, message: str) -> None:
    if written.bounds:
        raise written.source.error(message, written.bounds[0].place)


def analyse(written: WrittenSelect, schema: Schema, marks: Marks | None = None) -> Analysis:
    """Bind a SELECT and cut its condition into factors.

    marks: for templates: constants whose texts are marks in a copy of the condition.
    """
    source, select = written.source, with_registered(written.tree, schema)
    kind = JoinBinder if isinstance(select, exp.Select) and select.args.get("joins") else RowBinder
    try:
        return kind(select, written.text, source, schema, written.bounds).analyse(marks)
    except RecursionError:
        raise source.error("the query is nested too deeply", None, SHALLOW) from None
