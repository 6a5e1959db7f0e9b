"""Calls of aggregates: from the many spellings of SQL to `millpond.types.Aggregate`."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from millpond.language.builtins.allowed import AGGREGATES
from millpond.language.builtins.approximate import STATISTICS
from millpond.language.render.rendering import render
from millpond.language.resolve.calls import Call
from millpond.language.resolve.expressions import function_name
from millpond.language.resolve.statistics_calls import parameters_of
from millpond.language.syntax.nodes import StatesCall, WindowedCall
from millpond.language.syntax.source_text import Source, own_span
from millpond.support.sql import text_literal
from millpond.types import MERGED, Expression, OrderTerm, all_of

_REGRESSIONS = tuple(name for name in AGGREGATES if name.startswith("regr_"))
_TWO = ("covar_pop", "covar_samp", "corr", "arg_min", "arg_max", "series_corr", *_REGRESSIONS)
_QUANTILES = ("quantile_cont", "quantile_disc", "approx_quantile_cont", "approx_quantile_disc")
_MODES = ("mode", "approx_mode")
_WITHIN = (*_QUANTILES, *_MODES, "string_agg")
_ORDERED = ("list", "string_agg")
_IDEMPOTENT = ("min", "max", "bool_and", "bool_or", "bit_and", "bit_or")
_NO_DISTINCT = ("first", "last", "mode", *_TWO, *STATISTICS.values())


def order_term(term: exp.Expr, by: Expression) -> OrderTerm:
    """An ORDER BY term; NULLs come last unless NULLS FIRST is written."""
    return OrderTerm(by, bool(term.args.get("desc")), bool(term.args.get("nulls_first")))


class CallReader:
    """Reads aggregate calls. `bound` gives an argument over row columns (and refuses nested aggregates)."""

    def __init__(self, source: Source, bound: Callable[[exp.Expr], Expression]) -> None:
        self.source, self.bound = source, bound

    def read(self, node: exp.Expr) -> Call:
        """The call at `node`: `Anonymous`, or one wrapped in FILTER, WITHIN GROUP and a window, which is not read here.

        Raises:
            StatementError: wrong number of arguments, a parameter that is no constant, DISTINCT or ORDER BY where they
                make no sense.
        """
        inner, filters, within = node, [], None
        while isinstance(inner, exp.Filter | exp.WithinGroup | WindowedCall):
            if isinstance(inner, exp.Filter):
                filters.append(inner.expression.this)
            elif isinstance(inner, exp.WithinGroup):
                within = inner.expression
            inner = inner.this
        assert isinstance(inner, exp.Anonymous)
        written = function_name(inner)
        call = Call(node, AGGREGATES[written])
        values, order = self.arguments(inner, call)
        if within is not None:
            if order or call.function not in _WITHIN:
                raise self.source.error(f"{written} has no WITHIN GROUP", within)
            order = list(within.expressions)
        self.special(call, inner, written, values, order, within is not None)
        if len(filters) > 1:
            raise self.source.error("FILTER is given twice", node)
        for condition in filters:
            found = self.bound(condition)
            call.filter = found if call.filter is None else all_of([call.filter, found])
            call.filter_node = call.filter_node or condition
        return call

    def arguments(self, node: exp.Anonymous, call: Call) -> tuple[list[exp.Expr], list[exp.Expr]]:
        """The argument nodes, and the terms of an ORDER BY inside the parentheses."""
        values: list[exp.Expr] = []
        order: list[exp.Expr] = []
        for argument in node.expressions:
            value: exp.Expr | None = argument
            if isinstance(value, exp.Order):
                order, value = list(value.expressions), value.this
            if isinstance(value, exp.Distinct):
                call.distinct = True
                values.extend(value.expressions)
            elif isinstance(value, exp.IgnoreNulls | exp.RespectNulls | exp.Limit | exp.HavingMax):
                raise self.source.error("only DISTINCT, ORDER BY and FILTER may refine an aggregate", value)
            elif value is not None:
                values.append(value)
        # `string_agg(DISTINCT x, ',' ORDER BY x)`: the parser puts everything behind DISTINCT under it
        last = values[-1] if values else None
        if isinstance(last, exp.Order):
            order = list(last.expressions)
            values[-1] = last.this
        return values, order

    def special(
        self, call: Call, node: exp.Expr, written: str, values: list[exp.Expr], order: list[exp.Expr], within: bool
    ) -> None:
        """Everything that depends on the function."""
        name = call.function
        if name in STATISTICS.values():
            values = parameters_of(call, node, written, values, self.source)
        if name == "count" and (not values or isinstance(values[0], exp.Star)):
            if call.distinct or len(values) > 1 or (values and values[0].args.get("except_")):
                raise self.source.error("count(*) takes nothing beside the *", node, "count(DISTINCT x) or count(*)")
            call.function = "count_star"
            values = []
        elif name == "count_if":
            self.expect(node, written, values, 1)
            call.function, call.filter, call.filter_node = "count_star", self.bound(values[0]), values[0]
            values = []
        elif name in _QUANTILES:
            values = self.quantile(call, node, written, values, order, within)
            order = []
        elif name in _MODES and within and not values and len(order) == 1:
            values, order = [order[0].this], []
        elif name == "string_agg":
            values = self.separated(call, node, written, values)
        if name == MERGED:
            values = self.states(call, node, written, values)
        elif call.function != "count_star":
            self.expect(node, written, values, 2 if name in _TWO else 1)
        call.argument_nodes = values
        call.arguments = [self.bound(v) for v in values]
        self.refine(call, node, written, order)
        if name == "any_value":
            call.function, call.filter = "first", call.arguments[0].within("(", ") IS NOT NULL", "BOOLEAN")

    def states(self, call: Call, node: exp.Expr, written: str, values: list[exp.Expr]) -> list[exp.Expr]:
        """The arguments of a registered aggregate; its reference becomes the parameter."""
        if not isinstance(node, StatesCall):
            raise self.source.error(f"there is no function {written}", own_span(node))
        call.parameters = [values[0].name]
        return values[1:]

    def refine(self, call: Call, node: exp.Expr, written: str, order: list[exp.Expr]) -> None:
        """DISTINCT and ORDER BY."""
        if call.distinct and call.function in _NO_DISTINCT:
            raise self.source.error(f"{written} has no DISTINCT", own_span(node))
        if call.function in _IDEMPOTENT:
            call.distinct = False
        if order and call.function in ("first", "last"):
            raise self.source.error(
                f"{written} follows the event time and has no ORDER BY", order[0], "arg_min(x, by) or arg_max(x, by)"
            )
        if call.function not in _ORDERED:
            return  # ORDER BY changes nothing for the others
        for term in order:
            by = self.bound(term.this)
            if call.distinct and by != call.arguments[0]:
                raise self.source.error("with DISTINCT, ORDER BY can only be the value itself", term)
            call.order.append(order_term(term, by))
            call.order_nodes.append(term.this)

    def expect(self, node: exp.Expr, written: str, values: list[exp.Expr], count: int) -> None:
        """Check the number of arguments."""
        if len(values) != count:
            arguments = "1 argument" if count == 1 else f"{count} arguments"
            extra = values[count] if len(values) > count else None
            raise self.source.error(
                f"{written} takes {arguments} in a query over a stream, not {len(values)}", extra or own_span(node)
            )

    def quantile(
        self, call: Call, node: exp.Expr, written: str, values: list[exp.Expr], order: list[exp.Expr], within: bool
    ) -> list[exp.Expr]:
        """The value; the fractions become the parameter."""
        example = "quantile_cont(x, 0.5) or percentile_cont(0.5) WITHIN GROUP (ORDER BY x)"
        if within:
            if len(values) != 1 or len(order) != 1:
                raise self.source.error(f"{written} takes one fraction and one ORDER BY", own_span(node), example)
            values = [order[0].this, values[0]]
        if len(values) != 2:
            raise self.source.error(f"{written} needs a value and a fraction", own_span(node), example)
        fractions = values[1].expressions if isinstance(values[1], exp.Array) else [values[1]]
        for fraction in fractions:
            number = fraction.this if isinstance(fraction, exp.Paren) else fraction
            if not isinstance(number, exp.Literal) or number.is_string or not 0 <= float(number.name) <= 1:
                raise self.source.error("the fraction is a constant between 0 and 1", fraction, example)
        if within and order[0].args.get("desc"):
            # DuckDB counts a negative fraction from the top
            texts = [f"-{f.unnest().name}" if float(f.unnest().name) else "1" for f in fractions]
        else:
            texts = [render(f.unnest()) for f in fractions]
        listed = isinstance(values[1], exp.Array)
        call.parameters = [f"[{', '.join(texts)}]" if listed else texts[0], *call.parameters]
        return values[:1]

    def separated(self, call: Call, node: exp.Expr, written: str, values: list[exp.Expr]) -> list[exp.Expr]:
        """The value; the separator becomes the parameter."""
        if len(values) == 2:
            if not (isinstance(values[1], exp.Literal) and values[1].is_string):
                raise self.source.error("the separator is a constant text", values[1], f"{written}(x, ', ')")
            call.parameters = [text_literal(values[1].name)]
            return values[:1]
        call.parameters = ["','"]
        return values
