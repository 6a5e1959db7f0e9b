"""Another schema for a Delta table: one commit with its metadata, as the protocol has it.

delta-rs adds columns, but has no call that changes a type. Widening a type needs no other file: readers cast what a
file holds to what the table says.
"""

from __future__ import annotations

import json
import os

from deltalake import DeltaTable, Schema

from millpond.support.errors import PondError
from millpond.tables.durable_files import sync_folder
from millpond.tables.locations import is_remote, size_of, write_bytes


def commit_schema(table: DeltaTable, folder: str, schema: Schema) -> None:
    """Commit `schema` as the table's own, durably; the caller is the only writer.

    Raises: PondError when somebody else has committed meanwhile.
    """
    known = table.metadata()
    action = {
        "metaData": {
            "id": str(known.id),
            "name": known.name,
            "description": known.description,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema.to_json(),
            "partitionColumns": known.partition_columns,
            "configuration": known.configuration,
            "createdTime": known.created_time,
        }
    }
    log = os.path.join(folder, "_delta_log")
    target = os.path.join(log, f"{table.version() + 1:020d}.json")
    text = json.dumps({"commitInfo": {"operation": "CHANGE COLUMNS"}}) + "\n" + json.dumps(action) + "\n"
    if is_remote(folder):  # its storage handler has no call that puts a file only where there is none
        if size_of(target) is not None:
            raise PondError(f"the table {folder} was changed by another process")
        write_bytes(target, text.encode())
        return
    beside = f"{target}.tmp"
    with open(beside, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(beside, target)  # unlike a rename it does not replace a commit that is there
    except FileExistsError:
        raise PondError(f"the table {folder} was changed by another process") from None
    finally:
        os.unlink(beside)
    sync_folder(log)
