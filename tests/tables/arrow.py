"""Random Arrow tables of every type that a stream's column can have."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
from hypothesis import strategies as st

_INTEGERS = {
    pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64
}  # fmt: skip
_UNSIGNED = {pa.uint8(): 8, pa.uint16(): 16, pa.uint32(): 32, pa.uint64(): 64}


def _decimals(precision: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    top = 10**precision - 1
    return st.integers(-top, top).map(lambda n: decimal.Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale)))


_TIMES = st.times().map(lambda t: (t.hour * 3600 + t.minute * 60 + t.second) * 1_000_000 + t.microsecond)
_INTERVALS = st.builds(
    pa.MonthDayNano, st.tuples(st.integers(-400, 400), st.integers(-4000, 4000), st.integers(-(2**40), 2**40))
)
_INSTANTS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)

Values = tuple[pa.DataType, st.SearchStrategy[object]]

SCALARS: list[Values] = [
    *((k, st.integers(-(2 ** (b - 1)), 2 ** (b - 1) - 1)) for k, b in _INTEGERS.items()),
    *((k, st.integers(0, 2**b - 1)) for k, b in _UNSIGNED.items()),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(max_size=6)),
    (pa.binary(), st.binary(max_size=6)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), _INSTANTS),
    (pa.timestamp("us", "UTC"), _INSTANTS),
    (pa.time64("us"), _TIMES),
    (pa.month_day_nano_interval(), _INTERVALS),
    (pa.decimal128(5, 2), _decimals(5, 2)),
    (pa.decimal128(38, 0), _decimals(38, 0)),
    (pa.decimal128(38, 20), _decimals(38, 20)),
]
#: What may lie in lists and structs.
NESTABLE = [v for v in SCALARS if not pa.types.is_interval(v[0])]


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> Values:
    """A type and the values that it takes, NULL among them."""
    kind = draw(
        st.sampled_from(["scalar", "scalar", "list", "struct", "dictionary"][: 5 if depth == 2 else 4 if depth else 1])
    )
    if kind == "scalar":
        return draw(st.sampled_from(SCALARS if depth == 2 else NESTABLE))
    if kind == "dictionary":
        return pa.dictionary(pa.int32(), pa.string()), st.text(max_size=3)
    if kind == "list":
        inner, values = draw(typed(depth - 1))
        return pa.list_(inner), st.lists(st.none() | values, max_size=3)
    fields = {name: draw(typed(depth - 1)) for name in ("a", "B c")}
    return pa.struct([(n, k) for n, (k, _) in fields.items()]), st.fixed_dictionaries(
        {n: st.none() | v for n, (_, v) in fields.items()}
    )


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A table of up to three columns and eight rows, sometimes in several chunks."""
    columns = {}
    rows = draw(st.integers(0, 8))
    for number in range(draw(st.integers(1, 3))):
        kind, values = draw(typed())
        drawn = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        columns[f"c{number}"] = _column(drawn, kind)
    table = pa.table(columns)
    if draw(st.booleans()) and rows > 2:
        table = pa.concat_tables([table.slice(0, 2), table.slice(2)])
    return table.slice(draw(st.integers(0, 2)))


def _column(values: list[object], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    if isinstance(values and next((v for v in values if v is not None), None), dt.datetime):
        return pa.array(values, kind)
    return pa.array(values, kind)
