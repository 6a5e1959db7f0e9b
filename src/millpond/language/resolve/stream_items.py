"""FROM items of CQL that are streams: their windows, the columns that are read of them, and how much of their past."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from millpond.language.resolve.from_items import other_time
from millpond.language.resolve.reductions_bound import bound_reduction
from millpond.language.resolve.relation_refs import StreamInput
from millpond.language.resolve.schema import Schema
from millpond.language.resolve.stream_unions import union_feeds
from millpond.language.syntax.nodes import suffix_of, window_of
from millpond.language.syntax.source_text import Source, nearest
from millpond.language.syntax.walks import tables_of
from millpond.language.syntax.window_clause import Place, WindowClause
from millpond.types import (
    WEIGHT,
    Column,
    Feed,
    LatestRowsWindow,
    RangeWindow,
    Reduction,
    RelationWindow,
    StreamDefinition,
    TimedWindow,
    TumblingWindow,
    UnboundedWindow,
)
from millpond.types.reduction_forms import reduction_text

#: What a row of a reduced stream stands for.
_WEIGHT = Column(WEIGHT, "DOUBLE")

WINDOWS = "[RANGE 5 MINUTES], [RANGE 5 MINUTES OPEN], [NOW], or [RANGE TUMBLING 5 MINUTES] behind both"


def paired_window(clause: WindowClause, source: Source) -> TimedWindow:
    """The window behind a stream under PAIRS.

    Raises: StatementError where it says nothing of how long a row may be joined.
    """
    if clause.calendar is not None:
        message = "PAIRS cuts streams into intervals of equal length, and those of a calendar are not"
        raise source.error(message, clause.place, WINDOWS)
    if clause.extent == "range" and clause.slide is not None and clause.slide == clause.range:
        return TumblingWindow(clause.range, clause.origin or 0)
    if clause.extent == "now" or (clause.extent == "range" and clause.is_relation):
        length = clause.range if clause.extent == "range" else 0
        return RangeWindow(length - clause.open_end)
    if not clause.is_relation:
        message = "PAIRS takes windows that say how long a row may be joined; this one slides over its answers"
    else:
        message = "PAIRS joins rows by their times, so that it is known when a row finds no partner any more"
    raise source.error(message, clause.place, WINDOWS)


def bare_window(table: exp.Table, select: exp.Expr, source: Source) -> WindowClause:
    """The window of a stream that has none of its own: the tumbling one behind the other (`FROM a, b [RANGE …]`).

    Raises: StatementError when there is none.
    """
    for other in select.find_all(exp.Table):
        clause = window_of(other)
        if clause is not None and clause.slide is not None and clause.slide == clause.range:
            return clause
    raise source.error(f"how long may a row of {table.name} be joined? PAIRS needs a window here", table, WINDOWS)


@dataclass(frozen=True)
class InputStream:
    """A FROM item that is a stream.

    columns: that are read of it; those that the SELECT may name are `shown`. feeds: of a union. reduced: where REDUCE
    stands.
    """

    stream: StreamDefinition
    window: RelationWindow
    columns: tuple[Column, ...]
    shown: tuple[Column, ...]
    feeds: tuple[Feed, ...] = ()
    reduction: Reduction | None = None
    reduced: Place | None = None


class StreamItems:
    """Binds the FROM items of one SELECT that are streams.

    Arguments:
        select: as it is written. times: names, in small letters, of columns that are read beside those that it names.
        pairs: whether it is under PAIRS, where windows say how long rows may be joined.
    """

    def __init__(self, select: exp.Expr, times: frozenset[str], pairs: bool, source: Source, schema: Schema) -> None:
        self.select, self.pairs, self.source, self.schema = select, pairs, source, schema
        self.names = times | {node.name.lower() for node in select.find_all(exp.Identifier)}
        self.all_columns = _reads_all(select)
        self.inputs: dict[str, InputStream] = {}

    def bind(self, table: exp.Table, stream: StreamDefinition, alias: str) -> StreamInput:
        """The relation that a FROM item makes; without a window that is [RANGE UNBOUNDED].

        Arguments:
            alias: its generated name.
        Raises: StatementError with the place.
        """
        source, suffix = self.source, suffix_of(table)
        if suffix.revisions:
            raise source.error("ALL REVISIONS is for the answers of a query, and this is a stream", suffix.revisions)
        clause = window_of(table)
        if clause is None and self.pairs:
            clause = bare_window(table, self.select, source)
        feeds = union_feeds(table, stream, self.schema, source)
        window = self.window(clause, stream) if clause is not None else UnboundedWindow()
        reduction = bound_reduction(table, self.schema, source)
        called = table.args["alias"].args.get("columns") if table.args.get("alias") is not None else None
        shown = self._used(stream, window, len(called or ()))
        if reduction is not None:
            self._check_reduction(reduction, table, stream)
            shown = (*shown, _WEIGHT)
        columns = shown
        if stream.takes_back and all(c.name != "op" for c in columns):
            columns += tuple(c for c in stream.all_columns if c.name == "op")
        reduced = suffix.reduce.place if suffix.reduce is not None else None
        self.inputs[alias] = InputStream(stream, window, columns, shown, feeds, reduction, reduced)
        return StreamInput(alias, stream.name, columns)

    def _used(self, stream: StreamDefinition, window: RelationWindow, first: int) -> tuple[Column, ...]:
        """The columns that the SELECT may mean, and those that its window looks at; at least the event time.

        first: how many of the first columns have other names here (`FROM s [NOW] AS u(a, b)`): all of these are read.
        """
        partition = window.partition if isinstance(window, LatestRowsWindow) else ()
        names = self.names | {name.lower() for name in partition}
        names |= {c.name.lower() for c in stream.all_columns[:first]}
        found = tuple(c for c in stream.all_columns if self.all_columns or c.name.lower() in names)
        return found or tuple(c for c in stream.all_columns if c.name.lower() == stream.options.time.lower())

    def _check_reduction(self, reduction: Reduction, table: exp.Table, stream: StreamDefinition) -> None:
        clause = suffix_of(table).reduce
        if stream.takes_back:
            message = f"REDUCE is not available over {stream.name}, whose rows take others back"
            raise self.source.error(message, table)
        if clause is not None and (not reduction.samples or reduction.function == "error"):
            raise self.source.error(
                f"REDUCE {reduction_text(reduction)} is not for relations", clause.place,
                "REDUCE sample(0.9), age('7 days', 0.9), load(), or a function that was registered",
            )  # fmt: skip

    def window(self, clause: WindowClause, stream: StreamDefinition) -> RelationWindow:
        """The window in brackets, with its columns checked."""
        source = self.source
        if self.pairs and not clause.partition:
            self.check_time(clause, stream)
            return paired_window(clause, source)
        if not clause.is_relation or clause.extent == "all":
            raise source.error(
                "a window with SLIDE has answers where it ends, and a relation is defined at every instant",
                clause.place,
                "the same window without SLIDE; of a join: FROM (a [RANGE 5 MINUTES] JOIN b [NOW] ON …) and this window"
                " behind the parentheses",
            )
        self.check_time(clause, stream)
        partition = []
        for name, place in clause.partition:
            found = stream.column(name)
            if found is None:
                like = nearest(name, [c.name for c in stream.all_columns])
                raise source.error(f"there is no column '{name}' in {stream.name}", place, like=like)
            partition.append(found.name)
        if clause.extent == "rows":
            return LatestRowsWindow(clause.rows, tuple(partition))
        if clause.extent == "unbounded":
            return UnboundedWindow()
        return RangeWindow(clause.range - clause.open_end if clause.extent == "range" else 0)

    def check_time(self, clause: WindowClause, stream: StreamDefinition) -> None:
        """Refuse a window over another column than the event time."""
        source = self.source
        if clause.attribute is not None and clause.attribute.lower() != stream.options.time.lower():
            like = (
                ""
                if stream.column(clause.attribute)
                else nearest(clause.attribute, [c.name for c in stream.all_columns])
            )
            raise source.error(
                f"'{clause.attribute}' is not the event time of {stream.name}: windows of relations run over that",
                clause.attribute_place,
                other_time(clause.attribute, stream),
                like,
            )


def _reads_all(select: exp.Expr) -> bool:
    """Whether a SELECT may read columns that it does not name: by `*`, whole rows, or NATURAL."""
    aliases = {t.alias_or_name.lower() for t in tables_of(select)}
    whole_rows = any(not c.table and c.name.lower() in aliases for c in select.find_all(exp.Column))
    # Names for the columns count them; COLUMNS and PIVOT look at those that nobody names.
    counted = any(t.args.get("columns") for t in select.find_all(exp.TableAlias) if isinstance(t.parent, exp.Table))
    calls = {c.name.lower() for c in select.find_all(exp.Anonymous)}
    unnamed = select.find(exp.Pivot) is not None or "columns" in calls
    return (
        whole_rows
        or counted
        or unnamed
        or any(j.method for j in select.find_all(exp.Join))
        or any(map(_is_rows, select.find_all(exp.Star)))
    )


def _is_rows(star: exp.Star) -> bool:
    """Whether a star stands for columns, and is none of count(*)."""
    call = star.parent
    return not (isinstance(call, exp.Anonymous) and str(call.this).lower() == "count")
