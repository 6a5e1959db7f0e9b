"""Progress of streams: how far event time is complete, announced as bounds (punctuation), never inferred from order.

Pure functions over summaries of intake items; the engine carries their JSON state from epoch to epoch. A new generator
is added in `generators.py` without looking elsewhere. `marks` has punctuation as values, and the operators on it.
"""

from millpond.progress.generators import (
    FOREVER,
    NEVER,
    ItemSummary,
    Partition,
    StreamProgress,
    absorb,
    absorb_announced,
    ahead_mask,
    lull_mark,
    meld,
    now,
    silent,
    summarise,
)

__all__ = [
    "FOREVER",
    "NEVER",
    "ItemSummary",
    "Partition",
    "StreamProgress",
    "absorb",
    "absorb_announced",
    "ahead_mask",
    "lull_mark",
    "meld",
    "now",
    "silent",
    "summarise",
]
