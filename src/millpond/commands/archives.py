"""ALTER STREAM … SET: how the past of a running stream is kept from now on. Upkeep brings what is there in line.

ALTER STREAM reading SET (archive = 'replicate(0.5, 0.9 keep 730d) keep 30d')
ALTER STREAM reading SET (retention = 'forever')
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deltalake.exceptions import DeltaError

from millpond.archive import parse_design
from millpond.archive.retention import is_cut
from millpond.commands.summary_copies import set_summaries
from millpond.engine.core import Core
from millpond.language import CreateStream, token_place
from millpond.language.resolve.schema import Schema
from millpond.support.errors import Refusal, StatementError
from millpond.tables.stores import reason_of
from millpond.types import StreamDefinition, to_json


def with_design(definition: StreamDefinition) -> StreamDefinition:
    """A stream with its design in canonical form."""
    design = parse_design(definition.options.archive)
    return replace(definition, options=replace(definition.options, archive=str(design)))


def with_place(definition: StreamDefinition) -> StreamDefinition:
    """A stream that is new, with a place of its own below the one in an object store that was asked for.

    Nobody else writes there, whatever ponds are sent to one place, and whichever of them are made of a backup.
    """
    at = definition.options.archive_at
    own = None if at is None else f"{at}/{definition.name.lower()}-{uuid.uuid4().hex[:12]}"
    return replace(definition, options=replace(definition.options, archive_at=own))


def make_stream(core: Core, definition: StreamDefinition, statement: CreateStream) -> None:
    """Make the parts of a new stream. Raises: StatementError where an object store does not take its archive."""
    try:
        core.make_stream(definition)
    except (DeltaError, OSError) as error:
        asked = statement.definition.options.archive_at
        if asked is None:
            raise
        start, end = token_place(statement, asked)
        raise StatementError(
            f"there can be no archive at {asked}: {reason_of(error)}",
            statement.script,
            start,
            end,
            "a place that can be written to; its options are given where the pond is opened (storage={…})",
        ) from None


def alter_stream(core: Core, stream: StreamDefinition, options: Mapping[str, Any], names: Schema) -> str:
    """Change the options of a stream that may change while it runs; call it under the core's lock.

    Arguments:
        options: fields of `StreamOptions`, those that were given. names: what the catalog knows, for binding summaries.
    Raises: Refusal where queries rely on what would change; StatementError for a summary that cannot be bound.
    """
    altered = with_design(replace(stream, options=replace(stream.options, **options)))
    if altered == stream:
        return f"stream {stream.name} is like that already"
    if is_cut(altered) and not is_cut(stream):
        users = core.catalog.called(q for q in core.catalog.on_stream(stream.id) if not q.definition.retained)
        if users:
            raise Refusal(
                f"rows of '{stream.name}' were to be kept for ever when {', '.join(users)} were registered: their"
                " answers cannot tell that retention has cut windows; DROP QUERY first, and create them again then",
                "retention" if "retention" in options else "archive",
            )
    events = [{"do": "alter_stream", "id": stream.id, "definition": to_json(altered)}]
    before, after = (parse_design(s.options.archive).summaries for s in (stream, altered))
    if after != before:
        events.append(set_summaries(core, altered, after, names))
    core.catalog_log.record(*events)
    core.streams[stream.id].definition = altered
    changed = [n for n in ("archive", "retention") if getattr(altered.options, n) != getattr(stream.options, n)]
    return f"stream {stream.name} altered: {' and '.join(changed)}"
