"""Calls of statistics: APPROX, heavy_hitters, entropy, series_corr, and DuckDB's names for approximate aggregates."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from sqlglot import exp

from millpond.language.resolve.calls import Call
from millpond.language.syntax.source_text import Source, own_span
from millpond.support.sql import text_literal
from millpond.types.durations import parse_duration

_EXAMPLES = {
    "heavy_hitters": "heavy_hitters(x, 0.05) gives the values of at least 5 % of the rows",
    "entropy": "entropy(x)",
    "series_corr": "series_corr(value, name, INTERVAL '1 minute'), or with the name of one series behind",
    "approx_top_k": "approx_top_k(x, 10)",
}


def parameters_of(call: Call, node: exp.Expr, written: str, values: list[exp.Expr], source: Source) -> list[exp.Expr]:
    """The arguments of a statistic that are values of rows; the others become parameters of the call.

    Raises: StatementError when one is missing, is no constant, or is out of its range.
    """
    name = call.function
    accuracy, values = _accuracy(call, values, source)
    example = _EXAMPLES.get(name.removeprefix("approx_"), _EXAMPLES.get(name, ""))
    if name in ("heavy_hitters", "approx_heavy_hitters"):
        if len(values) != 2:
            raise source.error(f"{written} needs a value and a share", own_span(node), example)
        call.parameters = [_share(values.pop(), source, "the share", example)]
        if accuracy is not None and Decimal(accuracy) > Decimal(call.parameters[0]):
            raise source.error("the accuracy of heavy hitters is not coarser than their share", node, example)
    elif name == "approx_top_k":
        count = values.pop() if len(values) == 2 else None
        if not isinstance(count, exp.Literal) or count.is_string or not count.name.isdigit() or int(count.name) < 1:
            raise source.error(f"{written} needs a value and how many of them", count or own_span(node), example)
        call.parameters = [count.name]
    elif name == "series_corr":
        if len(values) not in (3, 4):
            raise source.error(f"{written} needs a value, a series and a step of time", own_span(node), example)
        call.parameters = [str(_step(values[2], source))]
        if len(values) == 4:
            one = values[3]
            if not isinstance(one, exp.Literal):
                raise source.error("the name of a series is a constant", one, example)
            call.parameters.append(text_literal(one.name) if one.is_string else one.name)
        del values[2:]
    if accuracy is not None:
        call.parameters.append(accuracy)
    elif name in ("approx_heavy_hitters", "approx_top_k", "approx_quantile_cont", "approx_quantile_disc"):
        call.parameters.append(_DEFAULT[name])
    return values


_DEFAULT = {
    "approx_heavy_hitters": "0.001",
    "approx_top_k": "0.001",
    "approx_quantile_cont": "0.01",
    "approx_quantile_disc": "0.01",
}


def _accuracy(call: Call, values: list[exp.Expr], source: Source) -> tuple[str | None, list[exp.Expr]]:
    named = [v for v in values if isinstance(v, exp.PropertyEQ | exp.Kwarg)]
    rest = [v for v in values if v not in named]
    for each in named:
        if each.this.name.lower() != "accuracy" or not call.function.startswith("approx_"):
            what = "there is no option" if call.function.startswith("approx_") else "only APPROX has the option"
            raise source.error(f"{what} '{each.this.name}'", each, "APPROX median(x, accuracy := 0.01)")
    if not named:
        return None, rest
    text = _share(named[0].expression, source, "the accuracy", "accuracy := 0.01")
    if not Decimal("0.0001") <= Decimal(text) <= Decimal("0.2"):
        raise source.error("the accuracy lies between 0.0001 and 0.2", named[0].expression, "accuracy := 0.01")
    return text, rest


def _share(node: exp.Expr, source: Source, what: str, example: str) -> str:
    """A constant between 0 and 1."""
    try:
        if not isinstance(node, exp.Literal) or node.is_string:
            raise InvalidOperation
        value = Decimal(node.name)
        if not 0 <= value <= 1:
            raise InvalidOperation
    except InvalidOperation:
        raise source.error(f"{what} is a constant between 0 and 1", node, example) from None
    return f"{value:f}"


def _step(node: exp.Expr, source: Source) -> int:
    """A duration in microseconds."""
    text = ""
    if isinstance(node, exp.Literal) and node.is_string:
        text = node.name
    elif isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal):
        text = f"{node.this.name} {node.args['unit'].name if node.args.get('unit') else ''}".strip()
    try:
        step = parse_duration(text)
        if step <= 0:
            raise ValueError("the step of time is longer than zero")
    except ValueError as fault:
        raise source.error(str(fault) if text else "the step is a span of time", node, "INTERVAL '1 minute'") from None
    return step
