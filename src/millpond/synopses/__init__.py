"""Synopses: the shared state that standing queries need, as pure functions over Arrow tables.

`aggregates` splits an aggregate into components, `pane_partials` and `row_partials` make and merge partials, `folds`
combines panes to windows, `finish` turns windows into answers. A new aggregate is added in `aggregates` alone. For row
queries `blocks` keeps rows in time order with an ordered index per attribute, `predicate_index` indexes the queries'
conditions and joins the two.
"""

from millpond.synopses.aggregates.splits import Component
from millpond.synopses.aggregates.splitting import components_of, is_holistic
from millpond.synopses.enums import query_ordered
from millpond.synopses.finish import finish_windows
from millpond.synopses.kernel import connection, query_table
from millpond.synopses.pane_partials import PanesSpec
from millpond.synopses.partials.dispatch import Spec, merge_partials, partial, spec_of
from millpond.synopses.row_partials import RowsSpec
from millpond.synopses.session_partials import SessionsSpec

__all__ = [
    "Component",
    "PanesSpec",
    "RowsSpec",
    "SessionsSpec",
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
