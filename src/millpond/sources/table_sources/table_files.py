"""Tables in files: all rows of their files, as they are now."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence

import pyarrow as pa

from millpond.sources.formats.read import read
from millpond.sources.intake_log import Item
from millpond.support.errors import SourceError
from millpond.synopses import connection
from millpond.types import StreamDefinition, StreamOptions, TableDefinition


def read_table(definition: TableDefinition) -> pa.Table:
    """All rows of a table's files, as they are now.

    Raises: SourceError when there is no file, or a record does not fit the declared columns.
    """
    paths = table_files(definition.path)
    if not paths:
        raise SourceError(f"table '{definition.name}': there is no file at {definition.path}")
    stream = as_stream(definition)
    assert definition.format is not None
    tables = []
    for number, path in enumerate(paths):
        stat = os.stat(path)
        item = Item(number, "file", path, definition.format, stat.st_size, stat.st_mtime_ns, "", None, "", 0)
        result = read(item, stream, None, connection())
        if result.rejected.num_rows:
            first = result.rejected.slice(0, 1).to_pylist()[0]
            place = "" if first["position"] is None else f", record {first['position']}"
            raise SourceError(f"table '{definition.name}': {path}{place}: {first['reason']}")
        tables.append(result.rows.select([c.name for c in definition.columns]))
    return pa.concat_tables(tables, promote_options="permissive")


def as_stream(definition: TableDefinition) -> StreamDefinition:
    """A table of files as a stream of the same files, which is how they are read."""
    options = StreamOptions(
        "files",
        definition.path,
        definition.format,
        header=definition.header,
        delimiter=definition.delimiter,
        null=definition.null,
        missing=definition.missing,
    )
    return StreamDefinition(definition.name, definition.columns, options)


def table_files(path: str) -> Sequence[str]:
    """The files of a table: those that a path names, matches, or holds."""
    full = os.path.abspath(os.path.expanduser(path))
    if os.path.isdir(full):
        return sorted(
            p for p in glob.glob(os.path.join(full, "*")) if os.path.isfile(p) and os.path.basename(p)[0] not in "._"
        )
    return sorted(p for p in glob.glob(full, recursive=True) if os.path.isfile(p))
