"""The catalog: what streams, tables, queries and synopses there are, as an append-only log of events.

`state` folds events into an immutable catalog and is pure; `log` keeps the events durable; `sharing` decides which
synopsis serves a query. How statements become events is decided in `millpond.interpreter`, not here.
"""

from millpond.catalog.log import CatalogLog
from millpond.catalog.sharing import assign
from millpond.catalog.state import Catalog, Standing, Status, Synopsis, apply

__all__ = ["Catalog", "CatalogLog", "Standing", "Status", "Synopsis", "apply", "assign"]
