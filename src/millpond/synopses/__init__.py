"""Synopses: the shared state that standing queries need, as pure functions over Arrow tables.

One file per concern: `aggregates` splits an aggregate into components, `panes` makes and merges pane partials, `folds`
combines panes to windows, `finish` turns windows into answers. A new aggregate is added in `aggregates.py` alone, or in
`statistics.py` when its state is a list of entries, which `entries` keeps short.
For row queries `blocks` keeps rows in time order with an ordered index per attribute, `boxes` is the predicate index
over the queries' conditions, and `matches` joins the two; `probe` and `compiled` hold the loops that Numba compiles.
"""

from millpond.synopses.aggregates import components_of, is_holistic
from millpond.synopses.enums import query_ordered
from millpond.synopses.finish import finish_windows
from millpond.synopses.kernel import connection, query_table
from millpond.synopses.panes import PanesSpec
from millpond.synopses.partials.dispatch import Spec, merge_partials, partial, spec_of
from millpond.synopses.rows import RowsSpec
from millpond.synopses.splits import Component

__all__ = [
    "Component",
    "PanesSpec",
    "RowsSpec",
    "Spec",
    "components_of",
    "connection",
    "finish_windows",
    "is_holistic",
    "merge_partials",
    "partial",
    "query_ordered",
    "query_table",
    "spec_of",
]
