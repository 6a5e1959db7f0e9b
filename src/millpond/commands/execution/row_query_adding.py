"""Row queries of an open pond: texts bound quickly, and added to the register by many threads at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from millpond.answers.row_queries.ready import ready_of
from millpond.catalog import NewSelection
from millpond.commands.execution.refitting import fitted
from millpond.commands.execution.sight import LiveNames
from millpond.commands.naming import Names
from millpond.commands.row_query_commands import new_row_query
from millpond.engine.pond_view import PondView
from millpond.language import Binder
from millpond.types import Query, QueryOptions, RowQuery, Staged


class RowQueries:
    """Adds row queries to the register of an open pond."""

    def __init__(self, pond: PondView) -> None:
        self._pond, self._catalogs = pond, pond.archives.catalogs
        self.names = Names(LiveNames(self._catalogs))
        self._binder = Binder(self.names)
        self._bound = threading.local()  # .columns: what `catalogs.alterations` was when this thread began to bind

    def bind(self, text: str) -> Query | Staged:
        """A SELECT as text, bound; quick for shapes that were seen before.

        Raises: StatementError, with the place in the text.
        """
        if getattr(self._bound, "columns", None) is None:
            self._bound.columns = self._catalogs.alterations
        return self._binder.bind(text)

    def forget(self) -> None:
        """Bind texts anew from now on: names of functions mean something else."""
        self._binder = Binder(self.names)

    def new(
        self,
        selection: RowQuery,
        text: str,
        name: str | None = None,
        owner: str = "",
        options: QueryOptions | None = None,
    ) -> NewSelection:
        """What the register is to take in; see `new_row_query`."""
        catalog, epoch = self._catalogs.catalog, self._pond.published.epoch
        wanted = options or QueryOptions()
        return new_row_query(catalog, epoch, selection, text, name, owner, wanted)

    def add(self, queries: Sequence[NewSelection], limit: int | None = None) -> list[int]:
        """Register, durably, all or none; their ids. Many threads that come at once share one write.

        Raises: QueryError as `Register.add`.
        """
        bound, self._bound.columns = getattr(self._bound, "columns", None), None
        ids = self._catalogs.register.add(queries, limit)
        # A column was altered between binding and now, or is being altered, without having seen these queries.
        if bound is not None and (bound % 2 or bound != self._catalogs.alterations):
            with self._catalogs.lock:
                self._catalogs.register.fit(fitted(self._catalogs, ids))
        _declare(self._pond, ids, queries)
        return ids


def add_row_queries(pond: PondView, queries: Sequence[NewSelection]) -> list[int]:
    """Register row queries that were bound under the pond's lock, durably, all or none; their ids.

    Raises:
        QueryError: as `Register.add`.
    """
    ids = pond.register.add(queries)
    _declare(pond, ids, queries)
    return ids


def _declare(pond: PondView, ids: Sequence[int], queries: Sequence[NewSelection]) -> None:
    """What is to be kept ready in any case."""
    for number, query in zip(ids, queries, strict=True):
        if query.options.materialize == "complete":
            ready_of(pond).keeper.declare(number, "complete")
