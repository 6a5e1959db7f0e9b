"""Rows as JSON lines, CSV and tables."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond.cli.output import TABLE_ROWS, Format, OutputClosed, Writer


def written(form: Format, *tables: pa.Table) -> tuple[str, str]:
    out, messages = io.StringIO(), io.StringIO()
    writer = Writer(form, out, messages)
    for table in tables:
        writer.write(table)
    return out.getvalue(), messages.getvalue()


def test_slices_of_nested_columns_keep_to_their_rows() -> None:
    table = pa.table({"l": [[1], [2, 3], None, []], "s": [{"a": 1}, None, {"a": 3}, {"a": 4}]}).slice(1, 2)
    out, _ = written(Format.json, table)
    assert [json.loads(line) for line in out.splitlines()] == [{"l": [2, 3], "s": None}, {"l": None, "s": {"a": 3}}]


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(-(2**63), 2**63 - 1),
            "t": st.none() | st.text(),
            "f": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "l": st.none() | st.lists(st.none() | st.text(max_size=4), max_size=3),
        }
    ),
    max_size=8,
)
SCHEMA = pa.schema([("i", pa.int64()), ("t", pa.string()), ("f", pa.float64()), ("l", pa.list_(pa.string()))])


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(ROWS)
def test_json_and_csv_read_back(rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    out, _ = written(Format.json, table)
    exact = [{**row, "i": str(row["i"])} if row["i"] is not None and abs(row["i"]) > 2**53 else row for row in rows]
    assert [json.loads(line) for line in out.split("\n")[:-1]] == exact
    # Python's reader tells an empty field from "" only by this mode, and cuts lines as RFC 4180 does.
    out, _ = written(Format.csv, table)
    lines = list(csv.reader(io.StringIO(out, newline=""), strict=True))
    assert lines[0] == ["i", "t", "f", "l"]
    for line, row in zip(lines[1:], rows, strict=True):
        assert line[1] == (row["t"] or "")
        assert line[0] == ("" if row["i"] is None else str(row["i"]))
        assert (float(line[2]) if line[2] else None) == row["f"]
        assert (json.loads(line[3]) if line[3] else None) == row["l"]


def test_csv_has_a_header_for_each_result_and_tells_null_from_empty() -> None:
    out, _ = written(Format.csv, pa.table({"a,b": ["x", "", None]}), pa.table({"c": [1.5]}))
    assert out == '"a,b"\nx\n""\n\n\nc\n1.5\n'


def test_empty_results() -> None:
    empty = pa.table({"a": pa.array([], pa.int64())})
    assert written(Format.json, empty)[0] == ""
    assert written(Format.csv, empty)[0] == "a\n"
    out, messages = written(Format.table, empty)
    assert "a" in out
    assert messages == "0 rows\n"


def test_a_table_in_a_pipe_is_not_cut() -> None:
    out, messages = written(Format.table, pa.table({f"column_{i}": ["x" * 20] for i in range(30)}))
    assert out.count("x" * 20) == 30
    assert messages == "1 row\n"


def test_a_long_table_says_that_it_is_cut() -> None:
    out, messages = written(Format.table, pa.table({"a": list(range(TABLE_ROWS + 1))}))
    assert str(TABLE_ROWS - 1) in out
    assert "--format csv" in messages


def test_texts_in_a_table_are_not_markup() -> None:
    assert "[bold]x[/]" in written(Format.table, pa.table({"a": ["[bold]x[/]"]}))[0]


def test_a_closed_pipe() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with pytest.raises(OutputClosed):
        Writer(Format.json, Closed(), io.StringIO()).write(pa.table({"a": [1]}))
