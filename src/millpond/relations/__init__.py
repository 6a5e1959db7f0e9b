"""Relations of CQL: windowed streams as relations that change with time, and SQL over them.

`stored_rows` says which rows a query needs and keeps, `spans` when each row is in its window, `evaluate` what a query's
answer is at an instant and how it changes between instants, for many instants at once, `reports` how that is stored.
Pure functions over Arrow tables; the engine calls them with what was there before an epoch and with what is there
after it. A faster plan for a shape of query is added in `evaluate.py` and named in `language/plan/continuous.py`.
"""

from millpond.relations.contents import Content, content_of, content_of_runs
from millpond.relations.evaluate import (
    Known,
    answers,
    difference,
    pending,
    snapshot,
)
from millpond.relations.in_time import Tables, TablesInTime, Ticks
from millpond.relations.probes import Probed, stretches
from millpond.relations.reports import net_changes, numbered, numbers_of, shown
from millpond.relations.runs import Run, all_rows, only_needed, with_rows
from millpond.relations.spans import FOR_EVER
from millpond.relations.stored_rows import UNLIMITED, Rows, kept, merge_rows, rows_needed, rows_of, sight_of

__all__ = [
    "FOR_EVER",
    "UNLIMITED",
    "Content",
    "Known",
    "Probed",
    "Rows",
    "Run",
    "Tables",
    "TablesInTime",
    "Ticks",
    "all_rows",
    "answers",
    "content_of",
    "content_of_runs",
    "difference",
    "kept",
    "merge_rows",
    "net_changes",
    "numbered",
    "numbers_of",
    "only_needed",
    "pending",
    "rows_needed",
    "rows_of",
    "shown",
    "sight_of",
    "snapshot",
    "stretches",
    "with_rows",
]
