"""From a file's columns to the stream's rows: types, event time, and what has to be rejected.

Readers give the columns that they found; `shape` converts them, fills what is missing, checks the event time, and
parts the good rows from the rejected records. Which rows are good never depends on which columns are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.sources.formats.carriers import Carrier, carriers
from millpond.sources.formats.convert import Mask, blanked, convert, is_bytes, is_text, is_valid, without_wide_decimals
from millpond.sources.formats.generated import generate
from millpond.sources.formats.lacking import lacking
from millpond.sources.formats.opening import Unreadable
from millpond.sources.intake_log import Item
from millpond.support.errors import SourceError
from millpond.types import ARRIVAL, StreamDefinition

#: The columns of `Read.rejected`.
REJECTED: Final = pa.schema([("reason", pa.string()), ("position", pa.int64()), ("record", pa.string())])

#: Event times lie in the years 1 to 9999 (microseconds, both ends included).
FIRST_TIME: Final = -62_135_596_800_000_000
LAST_TIME: Final = 253_402_300_799_999_999

RECORD_CHARACTERS: Final = 1_000
_VALUE_CHARACTERS: Final = 100
_DECLARE: Final = "; nor does any other: declare it TEXT, and say time_format='%d.%m.%Y %H:%M:%S' or the like"

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Read:
    """What came out of an item.

    rows: the good rows: the asked columns (all of the stream's by default), in canonical Arrow types.
    positions: where in the item each row stood, from 0; None when it is 0..n-1 (nothing was rejected). Rows of a CSV
        file are counted as records (the header and blank lines do not count), those of NDJSON as lines.
    rejected: the records that do not fit, by position: reason, position (None: the whole file), record (text, at most
        1,000 characters).
    unknown: how many columns of the file the stream does not have; they were ignored.
    """

    rows: pa.Table
    positions: pa.Int64Array | None = None
    rejected: pa.Table = field(default_factory=REJECTED.empty_table)
    unknown: int = 0


@dataclass(frozen=True)
class Found:
    """What a reader found: columns by lower-case name, all of `length`.

    positions: of each row; None: 0..length-1. rejected: records that the reader itself refused.
    record: gives the text of the rows with these indices, for the dead letters.
    json: nested columns that are text hold JSON.
    garbled: by column, rows where bytes that are not UTF-8 have been replaced.
    names: what the columns of the file are called; None: it says nothing of that, or it has nothing but rows that
        `ingest` has looked at.
    """

    columns: Mapping[str, pa.ChunkedArray]
    length: int
    record: Callable[[Indices], pa.Array]
    positions: Indices | None = None
    rejected: pa.Table | None = None
    unknown: int = 0
    json: bool = False
    garbled: Mapping[str, Mask] = field(default_factory=dict)
    names: Sequence[str] | None = None


def wanted(definition: StreamDefinition, columns: Sequence[str] | None) -> list[Carrier]:
    """The carriers of the asked columns, in the order asked; all for None.

    Raises:
        SourceError: the stream has no such column.
    """
    every = {c.name.lower(): c for c in carriers(definition)}
    if columns is None:
        return list(every.values())
    try:
        return [every[name.lower()] for name in columns]
    except KeyError as error:
        raise SourceError(f"stream '{definition.name}' has no column {error.args[0]!r}") from error


def shape(
    found: Found,
    item: Item,
    definition: StreamDefinition,
    columns: Sequence[str] | None,
    db: duckdb.DuckDBPyConnection,
) -> Read:
    """The stream's rows out of what a reader found. Raises Unreadable: it lacks a column."""
    if item.kind == "file" and (lacks := lacking(found.names, definition)) is not None:
        raise Unreadable(f"{lacks}; {lacks.remedy}")
    good: dict[str, pa.ChunkedArray] = {}
    faults = _Faults(found.length)
    time = definition.options.time.lower()
    trusted = item.kind == "landing" and item.format == "arrow"  # `ingest` has made sure of what it writes
    for carrier in carriers(definition):
        name = carrier.name.lower()
        source = found.columns.get(name)
        if definition.makes(name):
            if name == ARRIVAL:
                good[name] = _constant(item.arrival, carrier.arrow, found.length)
            continue
        if source is None:
            good[name] = pa.chunked_array([pa.nulls(found.length, carrier.arrow)])
        else:
            if name in found.garbled:
                faults.add(found.garbled[name], partial(_unfit_reasons, carrier, source, db, "is not UTF-8"))
                source = blanked(source, found.garbled[name])
            converted = convert(source, carrier, db, found.json, trusted=trusted)
            good[name] = converted.column
            if converted.unfit is not None:
                is_garbled = carrier.kind == "varchar" and is_text(source.type)  # any other text fits
                unfit = "is not UTF-8" if is_garbled else f"does not fit {carrier.declared}"
                if name == time and is_text(source.type) and _is_every(converted.unfit):
                    unfit += _DECLARE
                faults.add(converted.unfit, partial(_unfit_reasons, carrier, source, db, unfit))
        if name == time:
            _check_time(good[name], carrier, faults, missing=source is None)
    if definition.options.generated:
        made = generate(good, definition, db, faults.say)
        good |= made
        if time in made:
            event = next(c for c in carriers(definition) if c.name.lower() == time)
            _check_time(made[time], event, faults, missing=False)
    keep = wanted(definition, columns)
    rows = pa.Table.from_arrays([good[c.name.lower()] for c in keep], names=[c.name for c in keep])
    return _part(rows, found, faults)


def whole(definition: StreamDefinition, columns: Sequence[str] | None, reason: str | None = None) -> Read:
    """No rows: an empty file, or one that is rejected whole, for a reason."""
    rows = pa.schema([(c.name, c.arrow) for c in wanted(definition, columns)]).empty_table()
    if reason is None:
        return Read(rows)
    return Read(rows, rejected=rejections([reason], None, pa.nulls(1, pa.string())))


def rejections(reasons: Sequence[str | None] | pa.Array, positions: Indices | None, records: pa.Array) -> pa.Table:
    """A table of rejected records."""
    where = pa.nulls(len(records), pa.int64()) if positions is None else pa.array(positions, pa.int64())
    return pa.Table.from_arrays([pa.array(reasons, pa.string()), where, shortened(records)], schema=REJECTED)


def shortened(records: pa.Array, characters: int = RECORD_CHARACTERS) -> pa.Array:
    """Text cut to so many characters; bytes that are not UTF-8 are replaced."""
    if isinstance(records, pa.ChunkedArray):
        records = records.combine_chunks()
    if is_bytes(records.type) or not is_valid(records):
        blobs = records.cast(pa.binary()).to_pylist()
        records = pa.array([None if b is None else b[: 4 * characters].decode("utf-8", "replace") for b in blobs])
    return pc.utf8_slice_codeunits(records.cast(pa.string()), 0, characters)


def event_micros(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Event times as microseconds."""
    if not pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us")) if pa.types.is_date(column.type) else column
    return column.cast(pa.int64())


class _Faults:
    """Which rows do not fit, with the reason that was found first."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.mask: Mask | None = None
        self.reasons: npt.NDArray[np.object_] = np.empty(0, object)

    def say(self, mask: Mask, reason: str) -> None:
        """Add rows that have one reason."""
        self.add(mask, lambda rows: pa.repeat(reason, len(rows)))

    def add(self, mask: Mask, reasons: Callable[[Indices], pa.Array]) -> None:
        """Add rows; `reasons` is asked for the texts of the new ones only."""
        if self.mask is None:
            self.mask, self.reasons = np.zeros(self.length, np.bool_), np.full(self.length, None, object)
        new = np.flatnonzero(mask & ~self.mask)
        if len(new):
            self.reasons[new] = reasons(new).to_numpy(zero_copy_only=False)
            self.mask |= mask


def _is_every(mask: Mask) -> bool:
    """Whether all of some rows are marked; one alone tells nothing of the others."""
    return len(mask) > 1 and bool(mask.all())


def _constant(value: int, kind: pa.DataType, length: int) -> pa.ChunkedArray:
    return pa.chunked_array([pa.repeat(pa.scalar(value, pa.int64()).cast(kind), length)], kind)


def _check_time(column: pa.ChunkedArray, carrier: Carrier, faults: _Faults, missing: bool) -> None:
    """Add rows whose event time is NULL, infinite or out of range."""
    times = event_micros(column)
    edges = pc.min_max(times)
    low, high = edges["min"].as_py(), edges["max"].as_py()
    name = carrier.name
    if times.null_count:
        text = f"event time '{name}' is NULL" + (": the file has no such column" if missing else "")
        faults.add(times.is_null().to_numpy(), lambda i: pa.repeat(text, len(i)))
    if low is not None and (low < FIRST_TIME or high > LAST_TIME):
        outside = pc.or_(pc.less(times, FIRST_TIME), pc.greater(times, LAST_TIME)).fill_null(False).to_numpy()
        text = f"event time '{name}' is infinite or not in the years 1 to 9999"
        faults.add(outside, lambda i: pa.repeat(text, len(i)))


def _unfit_reasons(
    carrier: Carrier, source: pa.ChunkedArray, db: duckdb.DuckDBPyConnection, fault: str, rows: Indices
) -> pa.Array:
    values = shortened(value_texts(source.take(pa.array(rows)), db), _VALUE_CHARACTERS)
    return pc.binary_join_element_wise(f"column '{carrier.name}': '", values.fill_null("?"), f"' {fault}", "")


def value_texts(column: pa.ChunkedArray, db: duckdb.DuckDBPyConnection) -> pa.ChunkedArray | pa.Array:
    """The values of any column as text, for messages."""
    if is_text(column.type):
        return column
    if pa.types.is_timestamp(column.type) and column.type.unit in ("s", "ms"):
        return pc.binary_join_element_wise(column.cast(pa.int64()).cast(pa.string()), column.type.unit, " ")
    db.register("millpond_texts", pa.table({"c": without_wide_decimals(column)}))
    try:
        return db.sql("SELECT CAST(c AS VARCHAR) AS c FROM millpond_texts").to_arrow_table().column(0)
    except duckdb.Error:
        return pa.array([str(v) for v in column.to_pylist()], pa.string())
    finally:
        db.unregister("millpond_texts")


def _part(rows: pa.Table, found: Found, faults: _Faults) -> Read:
    positions, rejected = found.positions, found.rejected
    if faults.mask is not None:
        bad, good = np.flatnonzero(faults.mask), np.flatnonzero(~faults.mask)
        where = bad if positions is None else positions[bad]
        mine = rejections(pa.array(faults.reasons[bad], pa.string()), where, found.record(bad))
        rejected = mine if rejected is None else pa.concat_tables([rejected, mine]).sort_by("position")
        rows = rows.take(pa.array(good))
        positions = good if positions is None else positions[good]
    return Read(
        rows,
        None if positions is None else pa.array(positions, pa.int64()),
        REJECTED.empty_table() if rejected is None else rejected,
        found.unknown,
    )


__all__ = [
    "FIRST_TIME",
    "LAST_TIME",
    "REJECTED",
    "Found",
    "Indices",
    "Read",
    "event_micros",
    "rejections",
    "shape",
    "shortened",
    "value_texts",
    "wanted",
    "whole",
]
