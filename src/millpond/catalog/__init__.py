"""The catalog: what streams, tables, queries and synopses there are, as append-only logs of events.

`state` folds events into an immutable catalog and is pure; `log` keeps the events durable; `sharing` decides which
synopsis serves a query. `register` keeps the row queries, of which there may be very many: they have a log and indexes
of their own. How statements become events is decided in `millpond.commands.execution.interpreter`, not here.
"""

from millpond.catalog.catalog_state import Catalog, Standing, Status, Store, Summary, Synopsis
from millpond.catalog.events import apply
from millpond.catalog.log import CatalogLog
from millpond.catalog.register import NewSelection, Register, Registered, check_name
from millpond.catalog.sharing import Stored, assign, assign_stores

__all__ = [
    "Catalog",
    "CatalogLog",
    "NewSelection",
    "Register",
    "Registered",
    "Standing",
    "Status",
    "Store",
    "Stored",
    "Summary",
    "Synopsis",
    "apply",
    "assign",
    "assign_stores",
    "check_name",
]
