"""Windows over the last row of each key: one row of each is kept in parentheses, and the window behind is over these.

    FROM (SELECT k, v FROM s [PARTITION BY k ROWS 1] WHERE v > 0) [RANGE TUMBLING 1 HOUR]

At the end of an hour the last row of each key that is within the hour is the last one of the key in that hour. So this
is windows over windows: inner ones that keep the last row of each key, and outer ones that are over the answers of one
inner window each, which therefore bear the last instant of their window.

    FROM (SELECT window_end - 1 µs AS …, last(k) AS k, last(v) AS v FROM s [RANGE TUMBLING 1 HOUR] GROUP BY k
          HAVING last(v > 0)) [RANGE TUMBLING 1 HOUR]
"""

from __future__ import annotations

from sqlglot import exp

from millpond.language.resolve.from_items import find
from millpond.language.resolve.schema import Schema
from millpond.language.syntax.dialect import everything_of, parsed_expression
from millpond.language.syntax.nodes import to_stream_of, window_of, with_suffix
from millpond.language.syntax.source_text import Source, nearest
from millpond.language.syntax.window_clause import WindowClause
from millpond.types import StreamDefinition

#: The column that says when an answer of an inner window counts.
LAST_INSTANT = "window_end of the last row"
_PLAIN = frozenset({"expressions", "from_", "where", "texts"})


def last_rows(
    inner: exp.Query | exp.Table, clause: WindowClause | None, schema: Schema, source: Source
) -> exp.Select | None:
    """The SELECT of inner windows; None where this is something else.

    Arguments:
        inner: what stands in parentheses. clause: the window behind them.
    """
    select = everything_of(inner.copy()) if isinstance(inner, exp.Table) else inner.copy()
    if clause is None or not _tumbles(clause) or not isinstance(select, exp.Select) or to_stream_of(select) is not None:
        return None
    table = select.args["from_"].this if select.args.get("from_") is not None else None
    if not isinstance(table, exp.Table) or any(value and key not in _PLAIN for key, value in select.args.items()):
        return None
    kept = window_of(table)
    if kept is None or kept.extent != "rows" or kept.rows != 1 or not kept.partition or not kept.is_relation:
        return None
    stream = find(schema, table, source)
    if not isinstance(stream, StreamDefinition):
        return None
    items = [made for item in select.expressions for made in _items(item, stream, source)]
    keys: list[exp.Expr] = [exp.column(exp.to_identifier(name, quoted=True)) for name, _ in kept.partition]
    stamp = parsed_expression("window_end - INTERVAL '1 microsecond'")
    made = exp.Select(
        expressions=[exp.Alias(this=stamp, alias=exp.Identifier(this=LAST_INSTANT, quoted=True)), *items],
        from_=exp.From(this=with_suffix(table, window=clause)),
        group=exp.Group(expressions=keys),
    )
    if (where := select.args.get("where")) is not None:
        made.set("having", exp.Having(this=_last(where.this)))
    return made


def _tumbles(clause: WindowClause) -> bool:
    """Whether each row is in one of the windows."""
    alike = clause.slide == clause.range if clause.calendar is None else clause.calendar[0] == clause.calendar[1]
    return clause.extent == "range" and clause.slide is not None and alike


def _items(item: exp.Expr, stream: StreamDefinition, source: Source) -> list[exp.Expr]:
    """An item of the SELECT list, of the last row; `*` is all columns."""
    star = item.this if isinstance(item, exp.Column) else item
    if not isinstance(star, exp.Star):
        value = item.this if isinstance(item, exp.Alias) else item
        name = item.args["alias"] if isinstance(item, exp.Alias) else exp.to_identifier(item.output_name, quoted=True)
        last = _last(value)
        return [exp.Alias(this=last, alias=name) if name is not None and name.name else last]
    left_out = {each.name.lower(): each for each in star.args.get("except_") or ()}
    names = [c.name for c in stream.columns]
    for low, each in left_out.items():
        if low not in [name.lower() for name in names]:
            raise source.error(f"there is no column '{each.name}'", each, like=nearest(each.name, names))
    columns = [exp.Identifier(this=name, quoted=True) for name in names if name.lower() not in left_out]
    return [exp.Alias(this=_last(exp.Column(this=each)), alias=each.copy()) for each in columns]


def _last(value: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="last", expressions=[value])


__all__ = ["LAST_INSTANT", "last_rows"]
