"""The naive reference: what an answer is, written from the definitions alone, sharing no code with `millpond`.

`case` says a query once, as Millpond's text and as plain SQL over the rows of one window; `evaluate` runs that SQL
window by window; `progress` says from an intake script which rows are late and which windows are closed; `revisions`
gives the log of answers; `invocation` answers INVOKE; `selections` answers row queries; `compare`
compares. Change it only when the definitions change.
"""

from tests.oracle.case import Case
from tests.oracle.compare import assert_rows_equal, rows_equal
from tests.oracle.evaluate import evaluate, window_ends
from tests.oracle.invocation import invoke
from tests.oracle.landmarks import Since
from tests.oracle.progress import Epoch, Item, Script, StreamSpec, trace
from tests.oracle.revisions import Revision, latest, revisions
from tests.oracle.rows import Row, Table

__all__ = [
    "Case",
    "Epoch",
    "Item",
    "Revision",
    "Row",
    "Script",
    "Since",
    "StreamSpec",
    "Table",
    "assert_rows_equal",
    "evaluate",
    "invoke",
    "latest",
    "revisions",
    "rows_equal",
    "trace",
    "window_ends",
]
