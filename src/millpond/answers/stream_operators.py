"""What operators answer that a stream has asked for (its option `operators`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa

from millpond.answers.standing_answers import MOST_ROWS
from millpond.archive.open_archives import Archives
from millpond.manifests.places import state_folder
from millpond.operators.registry import operators_of
from millpond.operators.stream_operator import StreamOperator
from millpond.progress import StreamProgress
from millpond.support.errors import QueryError
from millpond.tables import Chunk, read_chunks
from millpond.types import StreamDefinition
from millpond.types.options.asked_operators import parse_operators


def operator_answer(archives: Archives, name: str, operator: str) -> pa.Table:
    """What an operator of a stream answers now: of the rows of all epochs that are published.

    Args:
        name: of the stream. operator: as its option says it, `last_row(sensor, 2 hours)`.
    Raises: QueryError when there is no such stream or operator, or the operator has failed.
    """
    with archives.pinned():
        with archives.lock:
            catalog, published, segments = archives.catalog, archives.published, archives.storage.state.segments
        stream = catalog.stream(name)
        if stream is None:
            raise QueryError(f"there is no stream '{name}'")
        owner = _owner(stream, operator)
        if owner in catalog.stopped:
            raise QueryError(f"{operator} has failed, and is stopped: {catalog.stopped[owner]}")
        found = operators_of(catalog).storing.get(owner)
        if not isinstance(found, StreamOperator):
            asked = stream.options.operators
            raise QueryError(f"stream '{name}' has no operator {operator}; it has {asked or 'none'}")
        chunks = read_chunks([os.path.join(state_folder(archives.path), s.path) for s in segments], {owner})
        return found.answer(_limited(chunks, operator), published.progress.get(str(stream.id), StreamProgress()))


def _owner(stream: StreamDefinition, operator: str) -> str:
    """What stores the state of an operator, as it is written; '' for what cannot be one."""
    try:
        [asked] = parse_operators(operator)
    except ValueError:
        return ""
    return asked.owner(stream.id)


def _limited(chunks: Iterable[Chunk], operator: str) -> Iterator[Chunk]:
    """The chunks, as long as they are no more rows than are read at once."""
    count = 0
    for chunk in chunks:
        count += chunk.table.num_rows
        if count > MOST_ROWS:
            raise QueryError(f"{operator} keeps more than {MOST_ROWS:,} rows, the most that are read at once")
        yield chunk
