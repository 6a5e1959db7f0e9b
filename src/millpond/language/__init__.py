"""Text into statements and bound queries.

`parse` turns a script into statements; `bind_standing`, `bind_selection`, `bind_query` and `bind_select` resolve names
and types against a `Schema`; `Binder` does so quickly for queries of a shape that it has seen.
Everything that a text can say passes through the allow-lists of `functions` and `expressions`: a function is added in
`functions.py` alone, a statement in `script.py` and `statements.py`; nothing outside of this folder needs to change.
"""

from millpond.language.binding import bind_query
from millpond.language.from_items import Schema
from millpond.language.relations import DEAD_COLUMNS, RelationQuery, RelationRef
from millpond.language.rewindow import with_window
from millpond.language.script import parse
from millpond.language.selections import bind_select, bind_selection, bind_standing
from millpond.language.statements import (
    AlterQuery,
    AlterStream,
    CreateQuery,
    CreateStream,
    CreateTable,
    DeriveStream,
    Drain,
    Drop,
    Explain,
    Invoke,
    Select,
    Show,
    Statement,
)
from millpond.language.templates import Binder

__all__ = [
    "DEAD_COLUMNS",
    "AlterQuery",
    "AlterStream",
    "Binder",
    "CreateQuery",
    "CreateStream",
    "CreateTable",
    "DeriveStream",
    "Drain",
    "Drop",
    "Explain",
    "Invoke",
    "RelationQuery",
    "RelationRef",
    "Schema",
    "Select",
    "Show",
    "Statement",
    "bind_query",
    "bind_select",
    "bind_selection",
    "bind_standing",
    "parse",
    "with_window",
]
