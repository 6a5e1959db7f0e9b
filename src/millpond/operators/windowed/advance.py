"""What an epoch gives for a query over windows: rows to report, revision numbers to remember, progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.manifests.owed import Owed, owed_together
from millpond.manifests.query_progress import P, QueryProgress
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.group_bounds import closed_groups
from millpond.operators.windowed.window_progress import WindowProgress
from millpond.synopses.enums import put_together
from millpond.synopses.finish import identity
from millpond.types import DAY, QueryOptions, WindowedQuery, WindowQuery


@dataclass(frozen=True)
class Advanced(Generic[P]):
    """What an epoch gives for a query: rows to report, revision numbers to remember, its new progress.

    early: those of the rows that are early answers, to be remembered as shown (see `operators.windowed.early`).
    sums: what is known of groups more than before (see `millpond.operators.relation.group_sums`).
    """

    answers: pa.Table | None
    revisions: pa.Table | None
    progress: QueryProgress[P]
    early: pa.Table | None = None
    sums: pa.Table | None = None


def ranges_known(query: WindowedQuery, options: QueryOptions) -> int:
    """For how many RANGEs behind its last row a group is known, or a value fills windows: 0 where none needs to be."""
    if options.empty != "report" or not query.windows or not (query.keys or options.fill):
        return 0
    length = query.longest
    known = max(DAY, 10 * length) if options.known_for is None else options.known_for
    return max(1, -(-known // length)) if length else 10


def ahead_of(query: WindowedQuery, options: QueryOptions) -> int:
    """How far behind a window rows may be that fill it (microseconds)."""
    known = ranges_known(query, options)
    return (known + 1) * query.window.range if options.ahead and isinstance(query, WindowQuery) else 0


def horizon_of(query: WindowedQuery, options: QueryOptions, progress: QueryProgress, high: int) -> int:
    """The event time up to which state does not cover windows: late rows revise those that end behind it from state."""
    return max(progress.start, progress.floor, min(progress.closed, high) - query.revised_for(options))


def advanced(
    closing: Closing[WindowedQuery],
    changed: Sequence[pa.Table | None],
    fresh: Sequence[pa.Table | None],
    first: int | None,
    too_late: int = 0,
    owed: Sequence[Owed] = (),
) -> Advanced[WindowProgress]:
    """Put together what was revised and what closed, for ranges of windows.

    Args:
        first: the end of the first window with data. too_late: rows that came too late for any window. owed: windows
            that rows came for and state does not cover.
    """
    progress, bound, own = closing.before, closing.until, closing.before.own
    revised = [t for t in changed if t is not None and t.num_rows]
    closed = [_first_answers(t) for t in fresh if t is not None and t.num_rows]
    answers = [*revised, *closed]
    revised = [without_replaced(t) for t in revised]
    return Advanced(
        put_together(answers) if answers else None,
        numbers(closing.query, put_together(revised)) if revised else None,
        replace(
            progress,
            closed=max(progress.closed, bound),
            windows=progress.windows + sum(t.num_rows for t in closed),
            revisions=progress.revisions + sum(t.num_rows for t in revised),
            too_late=progress.too_late + too_late,
            owed=owed_together([*progress.owed, *owed]),
            own=replace(
                own, first=first, groups=closed_groups(max(progress.closed, bound), closing.groups, own.groups)
            ),
        ),
    )


def _first_answers(fresh: pa.Table) -> pa.Table:
    n = fresh.num_rows
    return fresh.append_column("revision", pa.array(np.zeros(n, np.int64))).append_column("op", pa.repeat("+", n))


def without_replaced(answers: pa.Table) -> pa.Table:
    """Answers as they are reported: without those that others replace; see `QueryOptions.pairs`."""
    return answers.filter(pc.not_equal(answers["op"], "="))


def numbers(query: WindowedQuery, changed: pa.Table) -> pa.Table:
    """The revision numbers of answers as they are remembered: columns end, _k*, revision."""
    ends = changed["window_end"].cast(pa.int64())
    return pa.table({"end": ends, **{k: changed[k] for k in identity(query)}, "revision": changed["revision"]})
