"""How far queries answer when their streams are so far."""

from __future__ import annotations

from collections.abc import Sequence

from millpond.progress import FOREVER, NEVER
from millpond.types import QueryOptions, StreamDefinition
from millpond.types.plan_nodes import Fact


def announced(options: QueryOptions, bound: int) -> int:
    """The progress up to which a query answers, when that of its stream is `bound`."""
    return bound if bound >= FOREVER or bound <= NEVER else bound - options.delay


def release_facts(streams: Sequence[StreamDefinition], by_groups: bool) -> list[Fact]:
    """When the answers over some streams go out, for EXPLAIN; nothing where no stream has bounds for groups.

    Args:
        by_groups: whether those of a group go out when its own bound allows.
    """
    marked = next((s.options.marked_by for s in streams if s.options.marked_by), ())
    if not marked:
        return []
    by = ", ".join(marked)
    waits = f"when the watermark of all rows allows; groups by {by} are not kept apart"
    return [Fact("released", f"group by group, as the bounds by {by} allow" if by_groups else waits)]
