"""The life of the stream `sysstream`: it begins when statistics are first wanted, and stays with what it has."""

from __future__ import annotations

from millpond.engine.control.reporting import SYSSTREAM, definition_of, system_stream
from millpond.engine.core import Core
from millpond.support.errors import QueryError
from millpond.types import StreamDefinition, to_json


def begin(core: Core) -> None:
    """Make the stream if it is not there; what has been told before is told anew. Call it under the core's lock.

    Raises: QueryError when something else has its name.
    """
    core.reporter.forget()
    if system_stream(core.catalog) is not None:
        return
    with core.register.claim(SYSSTREAM) as free:
        if not free or core.catalog.lookup(SYSSTREAM) is not None:
            raise QueryError(f"the name '{SYSSTREAM}' is taken; DROP what has it, then statistics can be on")
        definition = definition_of(core.register.reserve_id(core.catalog.next_id))
        core.make_stream(definition)
        core.catalog_log.record({"do": "create_stream", "definition": to_json(definition)})


def check_drop(core: Core, stream: StreamDefinition) -> None:
    """Refuse to drop it while epochs report into it. Raises: QueryError."""
    if stream.options.source == "system" and core.settings.statistics:
        raise QueryError(f"epochs report into '{stream.name}': ALTER SYSTEM SET statistics = off first")


__all__ = ["SYSSTREAM", "begin", "check_drop"]
