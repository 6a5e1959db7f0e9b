"""Rows as a small table of text: what `print(pond.sql(…))` shows."""

from __future__ import annotations

import pyarrow as pa

from millpond.support.texts.shown_texts import is_number, shown_texts

#: Rows, columns, and letters of a value that are shown.
ROWS, COLUMNS, LETTERS = 10, 8, 40
#: What EXPLAIN gives.
PLAN = pa.schema([("plan", pa.string())])


def text_table(table: pa.Table, note: str = "", whole: bool = False) -> str:
    """A table with its first and last rows, and how many rows and columns it has; a plan's lines, all of them.

    Arguments:
        table: rows. One of a single column of texts called `plan`, as EXPLAIN gives, is shown whole: what is left out
            of a plan may be what was looked for.
        note: what is to be said of it; stands below.
        whole: nothing is left out.

    >>> print(text_table(pa.table({"k": [1, None], "name": ["tea", "rice"]})))
    2 rows, 2 columns
    ┌──────┬──────┐
    │ k    │ name │
    ├──────┼──────┤
    │ 1    │ tea  │
    │ NULL │ rice │
    └──────┴──────┘
    """
    if table.schema.equals(PLAN):
        return "\n".join([*table.column(0).to_pylist(), *([note] if note else [])])
    count, width = table.num_rows, table.num_columns
    said = f"{count:,} {'row' if count == 1 else 'rows'}, {width} {'column' if width == 1 else 'columns'}"
    lines = [said]
    if width:
        half = COLUMNS // 2
        all_of_them = whole or width <= COLUMNS
        names = list(range(width)) if all_of_them else [*range(half), None, *range(width - half, width)]
        cells = [_column(table, n, whole) for n in names]
        sizes = [max(map(len, column)) for column in cells]
        rule = [("─" * (size + 2)) for size in sizes]
        rows = [
            "│ " + " │ ".join(column[r].ljust(size) for column, size in zip(cells, sizes, strict=True)) + " │"
            for r in range(len(cells[0]))
        ]
        lines += [f"┌{'┬'.join(rule)}┐", rows[0], f"├{'┼'.join(rule)}┤", *rows[1:], f"└{'┴'.join(rule)}┘"]
    return "\n".join([*lines, note] if note else lines)


def _column(table: pa.Table, number: int | None, whole: bool) -> list[str]:
    """The name of a column and its values that are shown; None: the columns that are left out."""
    count, half = table.num_rows, ROWS // 2
    some = [range(count)] if whole or count <= ROWS else [range(half), range(count - half, count)]
    if number is None:
        return ["…"] * (1 + sum(map(len, some)) + (count > ROWS))
    column = table.column(number)
    number_like = is_number(column.type)
    values: list[str] = []
    for rows in some:
        shown = shown_texts(column.slice(rows.start, len(rows)).combine_chunks())
        values += ["…"] if values else []
        values += ["NULL" if v is None else v if number_like else _text(v, whole) for v in shown]
    return [_cut(table.column_names[number]), *values]


def _text(value: str, whole: bool) -> str:
    return " ".join(value.split()) if whole else _cut(value)


def _cut(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= LETTERS else plain[: LETTERS - 1] + "…"
