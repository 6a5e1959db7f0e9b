"""A file in another format, or with another delimiter, than its stream expects: its dead letter says which."""

import pytest

CASES = {
    "semicolons.csv": ("ts;v\n2024-01-01;1\n", "its fields are separated by ';' (delimiter=';')"),
    "mixed.csv": ("ts;v,w\n2024-01-01;1,2\n", "its fields are separated by ';' and by ',' (delimiter=';')"),
    "tabs.csv": ("ts\tv\n2024-01-01\t1\n", "its fields are separated by tabs (delimiter='\\t')"),
    "pipes.csv": ("ts|v\n2024-01-01|1\n", "its fields are separated by '|' (delimiter='|')"),
    "commas.tsv": ("ts,v\n2024-01-01,1\n", "its fields are separated by ',' (delimiter=',')"),
    "objects.csv": ('{"ts":"2024-01-01","v":1}\n', "it looks like NDJSON (format='ndjson')"),
    "array.csv": ('[{"ts":"2024-01-01","v":1}]\n', "it looks like a JSON array (format='ndjson')"),
    "parquet.csv": ("PAR1....", "it is a Parquet file (format='parquet', or a name that ends with .parquet)"),
    "page.csv": ("<!DOCTYPE html>\n<html>", "it looks like HTML or XML"),
    "headless.csv": ("2024-01-01,1\n", "the header names no column of 's': 2024-01-01, 1 (header=false?)"),
    "fields.ndjson": ("ts,v\n2024-01-01,1\n", "no line is a JSON object; it looks like CSV (format='csv')"),
    "arrays.ndjson": ("[1]\n[2]", "no line is a JSON object; what is read are objects, one a line or all in one array"),
    "values.ndjson": ("[1, 2]", "item 2: not a JSON object"),
    "half.ndjson": ('[{"ts":"2024-01-01"},', "it begins like a JSON array, and the end of it is missing"),
    "parquet.ndjson": ("PAR1....", "no line is a JSON object; it is a Parquet file"),
    "lines.ndjson": ("nothing\n", "line 1: not JSON"),
    "fields.parquet": ("ts,v\n2024-01-01,1\n", "not a readable Parquet file: it looks like CSV (format='csv')"),
    "objects.parquet": ('{"ts":"2024-01-01"}', "not a readable Parquet file: it looks like NDJSON (format='ndjson')"),
    "zip.parquet": ("PK\x03\x04", "not a readable Parquet file: it is a ZIP archive (or a spreadsheet)"),
    "broken.parquet": ("PAR1PAR1", "not a readable Parquet file: "),
}


def test_what_a_file_looks_like(inline_pond, tmp_path):
    pond = inline_pond()
    for number, (name, (text, _)) in enumerate(CASES.items()):
        (tmp_path / f"{number}").mkdir()
        pond.sql(f"CREATE STREAM s{number} (ts TIMESTAMP, v TEXT) WITH (path='{tmp_path}/{number}', event_time='ts')")
        (tmp_path / f"{number}" / name).write_text(text, encoding="latin-1")
    pond.drain()
    for number, (name, (_, expected)) in enumerate(CASES.items()):
        found = pond.sql(f"SELECT reason FROM dead(s{number})").rows()
        reasons = [reason.replace(f"'s{number}'", "'s'") for (reason,) in found]
        assert any(expected in reason for reason in reasons), (name, reasons)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (['"17"', '"abc"', '{"a":1}'], ['"17"', '"abc"', '{"a":1}']),
        (['"17"', '"abc"'], ['"17"', '"abc"']),
        (["17", "null", "[1]"], ["17", None, "[1]"]),
        (['"a\\"b"'], ['"a\\"b"']),
    ],
)
@pytest.mark.parametrize("between", ["\n", "\n\n"])
def test_a_text_for_json_is_a_json_text(inline_pond, tmp_path, lines, expected, between):
    """Whatever its neighbours are, and whatever lines stand between."""
    rows = [f'{{"ts":"2024-01-01","n":{n},"j":{value},"l":[{value}]}}' for n, value in enumerate(lines)]
    (tmp_path / "a.ndjson").write_text(between.join(rows))
    pond = inline_pond()
    columns = "ts TIMESTAMP, n INTEGER, j JSON, l JSON[]"
    pond.sql(f"CREATE STREAM s ({columns}) WITH (path='{tmp_path}/*.ndjson', event_time='ts')")
    pond.drain()
    assert pond.sql("SELECT j FROM s ORDER BY n").rows() == [(value,) for value in expected]
    assert pond.sql("SELECT l[1] FROM s ORDER BY n").rows() == [(value,) for value in expected]
