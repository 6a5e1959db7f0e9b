"""Rows on a screen: as a table where it fits, else a record below the other."""

from __future__ import annotations

from typing import Final, Literal

import pyarrow as pa
from rich.cells import cell_len
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from millpond.cli.output import rows_table

Layout = Literal["auto", "on", "off"]
#: A column is folded to this width before a table is said not to fit.
_NARROW: Final = 16
#: What the frame of a column takes.
_FRAME: Final = 3


def show_rows(table: pa.Table, console: Console, most: int, layout: Layout = "auto") -> str:
    """Print rows.

    Arguments:
        most: rows that are shown.
        layout: 'on': records, 'off': a table, 'auto': a table when it fits into the console's width.
    Returns: how many rows there are, in words.
    """
    drawn = rows_table(table.slice(0, most))
    if layout == "on" or (layout == "auto" and not fits(drawn, console.width)):
        _records(drawn, console)
    elif table.num_columns:
        console.print(drawn)
    count = "1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows"
    return count + (f", {most:,} shown: \\rows {table.num_rows} shows all" if table.num_rows > most else "")


def fits(drawn: Table, width: int) -> bool:
    """Whether a table can be read within a width, long texts folded."""
    least = 1
    for column in drawn.columns:
        cells = [column.header, *column.cells]
        widest = max((cell_len(cell.plain) for cell in cells if isinstance(cell, Text)), default=0)
        least += min(widest, _NARROW) + _FRAME
    return least <= width


def _records(drawn: Table, console: Console) -> None:
    columns = [[cell for cell in column.cells if isinstance(cell, Text)] for column in drawn.columns]
    headers = [str(column.header) for column in drawn.columns]
    for number in range(drawn.row_count):
        console.print(Rule(f"[ {number + 1} ]", align="left", style="dim"))
        record = Table.grid(padding=(0, 1))
        record.add_column(style="bold", overflow="fold", max_width=max(8, console.width // 3))
        record.add_column(overflow="fold")
        for header, cells in zip(headers, columns, strict=True):
            record.add_row(Text(header), cells[number])
        console.print(record)
