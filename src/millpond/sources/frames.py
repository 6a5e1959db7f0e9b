"""A streaming DataFrame of Spark as a source: what its micro-batches hold lands as files, each row once.

Spark's tasks write the rows of a micro-batch as Parquet files into the landing of a stream, all at once durable; one
write of the intake log then takes them all, or none. The batch that Spark repeats after a crash is known by the feed's
id and its number, however long ago it was. Rows pass through Spark's JVM on this way and cost what that costs; files
that `CREATE STREAM … WITH (source = 'files')` reads do not.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from millpond.sources.ingest import unknown_column
from millpond.sources.intake_log import HEAD_BYTES, IntakeLog, Item, checksum, sync_folder
from millpond.support.errors import SourceError
from millpond.support.sql import quote, text_literal
from millpond.types import StreamDefinition
from millpond.types.options import OptionFault, StreamTerms, options_of, read
from millpond.types.options.value_kinds import Span, text_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.types import DataType, StructType

_WRITTEN: Final = "partition int, path string, size bigint, head string, mtime bigint, rows bigint"

#: Rows of a batch as Arrow hands them to Python, instead of the few that suit Millpond's own jobs.
_ROWS_AT_A_TIME: Final = "65536"

_NAMES: Final = {
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
}


def check_frame(frame: DataFrame, trigger: Mapping[str, Any]) -> None:
    """See that a DataFrame is a stream, and that Spark knows the trigger. Raises: SourceError when not."""
    if not getattr(frame, "isStreaming", False):
        raise SourceError(
            "stream_from takes a streaming DataFrame (spark.readStream …); rows that are all there are ingested: "
            "pond.ingest(stream, frame.toArrow())"
        )
    try:
        if trigger:
            frame.writeStream.trigger(**trigger)
    except Exception as error:  # Spark's own kinds of wrong values, TypeError for a wrong name
        told = str(error).strip().splitlines()[0]
        raise SourceError(
            f"trigger={dict(trigger)} is none of Spark's: {told}; {{'availableNow': True}} and "
            "{'processingTime': '5 seconds'} are"
        ) from None


def create_statement(name: str, schema: StructType, options: Mapping[str, Any]) -> str:
    """The CREATE STREAM for the columns of a DataFrame.

    Arguments:
        name: of the stream. schema: of the DataFrame. options: of the stream, by name, as WITH takes them.
    Raises: SourceError for a type that no column of a stream has, and for an option that cannot be.

    >>> from pyspark.sql.types import LongType, StructType, TimestampNTZType
    >>> schema = StructType().add("ts", TimestampNTZType()).add("n", LongType())
    >>> create_statement("s", schema, {"event_time": "ts", "lateness": "5s"})
    'CREATE STREAM "s" ("ts" TIMESTAMP, "n" BIGINT) WITH ("event_time" = \\'ts\\', "lateness" = \\'5s\\')'
    """
    columns = ", ".join(f"{quote(field.name)} {_type(field.dataType, field.name)}" for field in schema.fields)
    try:
        read(options_of(StreamTerms), options)
    except OptionFault as fault:
        raise SourceError(str(fault)) from None
    told = ", ".join(f"{quote(name)} = {_literal(name, value)}" for name, value in options.items() if value is not None)
    return f"CREATE STREAM {quote(name)} ({columns})" + (f" WITH ({told})" if told else "")


def check_columns(names: Iterable[str], definition: StreamDefinition) -> None:
    """See that a stream has all columns of a DataFrame. Raises: SourceError for the first that it has not."""
    known = {c.name.lower() for c in definition.columns}
    seen: set[str] = set()
    for name in names:
        if name.lower() not in known:
            raise unknown_column(name, definition)
        if name.lower() in seen:
            raise SourceError(f"column '{name}' is given twice (names are case-insensitive)")
        seen.add(name.lower())


def feed(
    frame: DataFrame,
    land: Callable[[list[Item], str, int], None],
    folder: str,
    checkpoint: str,
    partition: str,
    trigger: Mapping[str, Any],
) -> StreamingQuery:
    """Start to take a streaming DataFrame in.

    Arguments:
        frame: its columns fit the stream. land: takes the files of a batch, given the feed's id and the batch's number.
        folder: of the stream's landing, where Spark's tasks can write. checkpoint: folder of Spark's checkpoint.
        partition: the source partition. trigger: how often, as Spark's `trigger` takes it.
    """

    def batch(rows: DataFrame, number: int) -> None:
        session = rows.sparkSession
        session.sparkContext.setLocalProperty("spark.scheduler.pool", "background")
        session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", _ROWS_AT_A_TIME)
        written = rows.mapInArrow(_writer(folder), _WRITTEN).toArrow().sort_by("partition")
        items = [
            Item(0, "landing", w["path"], "parquet", w["size"], w["mtime"], w["head"], w["rows"], partition, 0)
            for w in written.to_pylist()
        ]
        land(items, session.sparkContext.getLocalProperty("sql.streaming.queryId") or "", number)

    writer = frame.writeStream.foreachBatch(batch).option("checkpointLocation", checkpoint)
    return (writer.trigger(**trigger) if trigger else writer).start()


def batch_key(feed: str, number: int) -> str:
    """The idempotency key of a feed's batch."""
    return f"spark:{feed}:{number}"


def last_batch(log: IntakeLog, feed: str) -> int:
    """The number of the last batch of a feed that was taken; -1: none."""
    start = batch_key(feed, 0)[:-1]
    keys = (item.key for item in reversed(log.items()))
    return next((int(key[len(start) :]) for key in keys if key is not None and key.startswith(start)), -1)


def _writer(folder: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does: its rows become one durable file; nothing for none."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        path = os.path.join(folder, f"{uuid.uuid4().hex}.parquet")
        temporary = path + ".tmp"
        rows = 0
        writer: pq.ParquetWriter | None = None
        with open(temporary, "wb") as file:
            for batch in batches:
                if not batch.num_rows:
                    continue
                writer = writer or pq.ParquetWriter(file, batch.schema, compression="zstd")
                writer.write_batch(batch)
                rows += batch.num_rows
            if writer is not None:
                writer.close()
            file.flush()
            os.fsync(file.fileno())
        if not rows:
            os.unlink(temporary)
            return
        os.rename(temporary, path)
        sync_folder(folder)
        with open(path, "rb") as file:
            head = checksum(file.read(HEAD_BYTES))
        status = os.stat(path)
        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        yield pa.record_batch(
            {
                "partition": pa.array([number], pa.int32()),
                "path": [path],
                "size": [status.st_size],
                "head": [head],
                "mtime": [status.st_mtime_ns],
                "rows": [rows],
            }
        )

    return write


def _type(kind: DataType, column: str) -> str:
    name = kind.typeName()
    if name in _NAMES:
        return _NAMES[name]
    if name == "decimal":
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if name == "array":
        return f"{_type(kind.elementType, column)}[]"
    if name == "struct":
        fields = kind.fields
        return "STRUCT(" + ", ".join(f"{quote(f.name)} {_type(f.dataType, column)}" for f in fields) + ")"
    raise SourceError(
        f"column '{column}' of the DataFrame is a {kind.simpleString()}, which no column of a stream can be; select or "
        "cast what is needed of it"
    )


def _literal(name: str, value: Any) -> str:
    """The value of an option as SQL has it."""
    kind = options_of(StreamTerms)[name].kind
    if isinstance(kind, Span) and not isinstance(value, str):
        return text_literal(f"{kind.read(value, name)} us")
    return text_literal(text_of(value, name))
