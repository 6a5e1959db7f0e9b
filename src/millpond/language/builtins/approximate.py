"""Statistics by name: what APPROX makes of an aggregate, and the spellings of the others."""

from __future__ import annotations

from collections.abc import Callable

#: What APPROX may stand before: the function's spelling, and its approximate form.
APPROXIMATE = {
    "median": "approx_median",
    "quantile_cont": "approx_quantile_cont",
    "percentile_cont": "approx_quantile_cont",
    "quantile": "approx_quantile_disc",
    "quantile_disc": "approx_quantile_disc",
    "percentile_disc": "approx_quantile_disc",
    "count": "approx_count_distinct",
    "mode": "approx_mode",
    "heavy_hitters": "approx_heavy_hitters",
}

#: All spellings of statistics as aggregates, and their canonical names.
STATISTICS = {
    "heavy_hitters": "heavy_hitters",
    "entropy": "entropy",
    "series_corr": "series_corr",
    "approx_median": "approx_median",
    "approx_quantile": "approx_quantile_disc",
    "approx_quantile_cont": "approx_quantile_cont",
    "approx_quantile_disc": "approx_quantile_disc",
    "approx_count_distinct": "approx_distinct",
    "approx_mode": "approx_mode",
    "approx_heavy_hitters": "approx_heavy_hitters",
    "approx_top_k": "approx_top_k",
}

#: Statistics that DuckDB does not know: not for SELECTs over answers and tables.
OURS = frozenset(STATISTICS) - {"entropy", "approx_quantile", "approx_count_distinct", "approx_top_k"}


_LIKE = {
    "approx_median": "median",
    "approx_mode": "mode",
    "approx_quantile_cont": "quantile_cont",
    "approx_quantile_disc": "quantile_disc",
}


def approximate(name: str, fail: Callable[[str], None]) -> str:
    """The function that APPROX makes of one; `fail` raises when it has no approximate form."""
    found = APPROXIMATE.get(name.lower())
    if found is None:
        fail(
            f"{name} has no approximate form; APPROX stands before median, quantile_cont, quantile_disc, mode,"
            " heavy_hitters and count(DISTINCT …)"
        )
    return found or name


def typed_sql(function: str, arguments: list[str], parameters: list[str]) -> str | None:
    """DuckDB SQL of the same type as a statistic; None: `function` is no statistic."""
    x = arguments[0] if arguments else ""
    if function in ("heavy_hitters", "approx_heavy_hitters"):
        return f"list({{'value': {x}, 'count': 1::BIGINT}})"
    if function == "series_corr":
        series = arguments[1]
        return f"list({{'a': {series}, 'b': {series}, 'corr': ({x})::DOUBLE, 'steps': 1::BIGINT}})"
    if function == "approx_distinct":
        return f"count(DISTINCT {x})"
    if function == "approx_top_k":
        return f"list({x})"
    if function in _LIKE:
        fraction = f", {parameters[0]}" if "quantile" in function else ""
        return f"{_LIKE[function]}({x}{fraction})"
    return f"entropy({x})" if function == "entropy" else None
