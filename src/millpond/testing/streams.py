"""In-memory streams and files for cases: CSV text into typed Arrow tables, and files of any kind.

A header names columns; `ts:s`, `ts:ms`, `ts:us` say that a time is written as a number of that unit since 1970. `NULL`
is NULL; an empty value is NULL too, except in a text column, where it is the empty text.
"""

from __future__ import annotations

import csv
import functools
import gzip
import json
import os
import random
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from millpond.support.errors import MillpondError

_UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def columns_of(create_stream: str) -> dict[str, str]:
    """The columns that the text of a CREATE STREAM or CREATE TABLE declares, name to type.

    >>> columns_of("CREATE STREAM s (ts TIMESTAMP, price DECIMAL(10, 2), tags TEXT[]) WITH (event_time='ts')")
    {'ts': 'TIMESTAMP', 'price': 'DECIMAL(10, 2)', 'tags': 'TEXT[]'}
    """
    start = create_stream.find("(")
    parts: list[str] = []
    depth, part = 0, ""
    for letter in create_stream[start:] if start >= 0 else "":
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            break
        if letter == "," and depth == 1:
            parts.append(part)
            part = ""
        elif not (letter == "(" and depth == 1 and not part):
            part += letter
    parts.append(part)
    declared = (p.strip().split(None, 1) for p in parts if p.strip())
    return {d[0].strip('"'): re.sub(r"(?i)\s+not\s+null$", "", d[1].strip()) for d in declared if len(d) == 2}


def rows_table(header: str, rows: Sequence[str], types: dict[str, str]) -> pa.Table:
    """CSV lines as an Arrow table with the given DuckDB types (a column without a type is text).

    Raises MillpondError if a value does not fit its type.

    >>> rows_table("ts:s,v", ["1.5,2", "2,NULL"], {"ts": "TIMESTAMP", "v": "BIGINT"}).to_pylist()[1]["v"] is None
    True
    """
    names = [h.strip() for h in next(csv.reader([header]))]
    plain = [n.partition(":")[0] for n in names]
    lower = {k.lower(): v for k, v in types.items()}
    kinds = [lower.get(n.lower(), "VARCHAR") for n in plain]
    texts: list[list[str | None]] = [[] for _ in names]
    for row in csv.reader(rows, skipinitialspace=True):
        if len(row) != len(names):
            raise MillpondError(f"a row has {len(row)} values, the header {len(names)} names: {','.join(row)}")
        for i, value in enumerate(row):
            texts[i].append(_text(value, names[i].partition(":")[2], kinds[i]))
    connection = _instance().cursor()  # an instance of its own would cost more than all that follows
    try:
        connection.execute("SET TimeZone='UTC'")
        connection.register("t", pa.table({f"c{i}": pa.array(t, pa.string()) for i, t in enumerate(texts)}))
        items = ", ".join(f'{_cast(f"c{i}", k)} AS "{n}"' for i, (n, k) in enumerate(zip(plain, kinds, strict=True)))
        return connection.sql(f"SELECT {items} FROM t").to_arrow_table()
    except duckdb.Error as error:
        raise MillpondError(f"values do not fit {', '.join(kinds)}: {error}") from None
    finally:
        connection.close()


@functools.cache
def _instance() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def _cast(column: str, kind: str) -> str:
    # A plain cast of text to TIMESTAMP ignores an offset; through TIMESTAMPTZ it does not.
    return f"CAST({column}::TIMESTAMPTZ AS TIMESTAMP)" if kind.upper() == "TIMESTAMP" else f"CAST({column} AS {kind})"


def _text(value: str, unit: str, kind: str) -> str | None:
    text = value.strip()
    if text == "NULL" or (text == "" and kind.upper() not in ("VARCHAR", "TEXT", "STRING")):
        return None
    return timestamp_text(int(Decimal(text) * _UNITS[unit])) if unit else text


def timestamp_text(microseconds: int) -> str:
    """Microseconds since 1970 as `1970-01-01 00:01:00[.ffffff]`.

    >>> timestamp_text(-1)
    '1969-12-31 23:59:59.999999'
    """
    from datetime import datetime, timedelta

    moment = datetime(1970, 1, 1) + timedelta(microseconds=microseconds)
    return moment.isoformat(sep=" ")


def event_time_order(header: str, rows: Sequence[str], within: int, chance: random.Random) -> list[int]:
    """A permutation of the rows in which none lags behind the largest event time before it by `within` µs or more.

    The event time is the first column. Rows of equal time keep their order, since ties follow it.
    """
    name = next(csv.reader([header]))[0]
    column = name.partition(":")[0].strip()
    table = rows_table(header, rows, {column: "TIMESTAMP"})
    times = table.column(column).cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    jitter: dict[int | None, int] = {}
    for time in times:
        jitter.setdefault(time, chance.randrange(within) if within > 0 else 0)
    return sorted(range(len(rows)), key=lambda i: ((times[i] or 0) + jitter[times[i]], times[i] or 0, i))


def write_file(folder: Path, name: str, content: Sequence[str], raw: bool, moment: int) -> Path:
    """Write a file as sources want it: complete before it appears. Returns where it is.

    The name's ending says the kind: `.parquet` (content: CSV whose header is `name TYPE, …`), else text; `.gz` and
    `.zst` are compressed. `raw` writes the text as it stands whatever the name. `moment` becomes its time of
    modification, in seconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder.parent / f".{name}.part"
    text = "".join(f"{line}\n" for line in content)
    if raw:
        hidden.write_text(text, encoding="utf-8")
    elif name.endswith(".parquet"):
        pq.write_table(_typed(content), hidden)
    elif name.endswith(".gz"):
        hidden.write_bytes(gzip.compress(text.encode(), mtime=0))
    elif name.endswith(".zst"):
        with pa.CompressedOutputStream(pa.OSFile(str(hidden), "wb"), "zstd") as out:
            out.write(text.encode())
    else:
        hidden.write_text(text, encoding="utf-8")
    os.utime(hidden, (moment, moment))
    return hidden.rename(folder / name)


def _typed(content: Sequence[str]) -> pa.Table:
    types = columns_of(f"({content[0]})")
    return rows_table(",".join(types), content[1:], types)


def ndjson(rows: Sequence[dict[str, object]]) -> list[str]:
    """Rows as lines of JSON, for `write_file`.

    >>> ndjson([{"a": 1}])
    ['{"a": 1}']
    """
    return [json.dumps(r, default=str) for r in rows]
