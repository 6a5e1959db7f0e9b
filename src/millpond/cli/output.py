"""Answers as text: JSON lines, CSV, or a table for people.

Values have the texts that they have over HTTP (`millpond.support.texts`). CSV has quotes where they are needed, an
empty field for NULL and "" for an empty string.
"""

from __future__ import annotations

from enum import StrEnum
from typing import IO

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from millpond.support.texts.json_texts import csv_columns, lines_json
from millpond.support.texts.shown_texts import is_number, shown_texts

_BATCH = 16_384
#: Rows that a table for people shows at most.
TABLE_ROWS = 2_000


class Format(StrEnum):
    """How rows are written to standard output."""

    table = "table"
    json = "json"
    csv = "csv"


class OutputClosed(Exception):
    """Whoever read our standard output has gone."""


class Writer:
    """Writes results one after the other to a stream.

    Arguments:
        form: the format.
        stream: where rows go.
        messages: where remarks about the output go.
    """

    def __init__(self, form: Format, stream: IO[str], messages: IO[str]) -> None:
        self._form, self._stream, self._messages = form, stream, messages
        self._written = 0

    def write(self, table: pa.Table) -> None:
        """Write one result and flush.

        Raises: OutputClosed when the reader has gone.
        """
        try:
            if self._form is Format.json:
                self._json(table)
            elif self._form is Format.csv:
                self._csv(table)
            else:
                self._table(table)
            self._stream.flush()
        except BrokenPipeError:
            raise OutputClosed from None
        self._written += 1

    def _json(self, table: pa.Table) -> None:
        for lines in lines_json(table):
            self._stream.write(lines.decode())

    def _csv(self, table: pa.Table) -> None:
        if self._written:
            self._stream.write("\n")
        self._stream.write(",".join(_csv_quoted(name) for name in table.column_names) + "\n")
        for batch in csv_columns(table).to_batches(max_chunksize=_BATCH):
            columns = [_csv_fields(column) for column in batch.columns]
            rows = zip(*columns, strict=True) if columns else [()] * batch.num_rows
            self._stream.write("".join(",".join(row) + "\n" for row in rows))

    def _table(self, table: pa.Table) -> None:
        if self._written:
            self._stream.write("\n")
        # A pipe has no width: a table cut to 80 columns would be lost data.
        console = Console(file=self._stream, width=None if self._stream.isatty() else 100_000, highlight=False)
        console.print(rows_table(table.slice(0, TABLE_ROWS)))
        rows = "1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows"
        cut = table.num_rows > TABLE_ROWS
        self._messages.write(rows + (f", {TABLE_ROWS:,} shown: --format csv or json writes all\n" if cut else "\n"))


def rows_table(table: pa.Table) -> Table:
    """Rows as a Rich table; numbers to the right, NULL dimmed."""
    drawn = Table()
    for field in table.schema:
        drawn.add_column(Text(field.name), justify="right" if is_number(field.type) else "left", overflow="fold")
    columns = [shown_texts(pa.array([]) if not c.num_chunks else c.combine_chunks()) for c in table.columns]
    for row in zip(*columns, strict=True):
        drawn.add_row(*(Text("NULL", style="dim") if text is None else Text(text) for text in row))
    return drawn


def _csv_fields(column: pa.Array) -> list[str]:
    if not pa.types.is_string(column.type):
        return ["" if text is None else text for text in column.cast(pa.string()).to_pylist()]
    return ["" if text is None else _csv_quoted(text) for text in column.to_pylist()]


def _csv_quoted(text: str) -> str:
    if text and not any(c in text for c in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'
