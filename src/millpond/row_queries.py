"""Registering row queries: from text, or a bound SELECT, to a place in the register."""

from __future__ import annotations

from collections.abc import Sequence

from millpond.catalog import NewSelection
from millpond.engine.core import Core
from millpond.engine.reporting import SYSSTREAM
from millpond.errors import QueryError, Refusal
from millpond.language import Binder
from millpond.results.ready import ready_of
from millpond.types import (
    BoundQuery,
    FunctionDefinition,
    QueryDefinition,
    QueryOptions,
    Selection,
    StreamDefinition,
    TableDefinition,
)

_FORMS = ("auto", "partial", "complete", "none")


def check_form(materialize: str) -> None:
    """Raise QueryError for what is no value of `materialize`."""
    if materialize not in _FORMS:
        raise QueryError(f"there is no materialize = '{materialize}'; there are {', '.join(_FORMS)}")


def check_row_options(options: QueryOptions) -> None:
    """Raise Refusal for options that are not those of row queries."""
    plain = QueryOptions()
    for option in ("since", "empty", "revise_for", "early", "flush", "flush_delay", "flush_windows", "every", "state"):
        if getattr(options, option) != getattr(plain, option):
            raise Refusal(f"'{option}' is for window queries; a row query says BEGIN … END", option)
    for option in ("adapt", "adapt_probability", "adapt_window", "adapt_alpha", "adapt_budget"):
        if getattr(options, option) != getattr(plain, option):
            raise Refusal(
                f"'{option}' is for queries whose filters are evaluated in an order: those over windows, and CQL",
                option,
            )
    check_form(options.materialize)


class Names:
    """The names of a pond as the binder sees them: those of the catalog; row queries are no tables."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def lookup(self, name: str) -> StreamDefinition | TableDefinition | QueryDefinition | None:
        """What the catalog has of that name."""
        return self._core.catalog.lookup(name)

    def missing(self, name: str) -> str:
        """Why nothing can be read from a name that `lookup` does not know; '' where there is nothing to say."""
        if self._core.register.id_of(name) is not None:
            return f"'{name}' is a row query: nothing can be selected from it; INVOKE {name} gives its answer"
        if name.lower() == SYSSTREAM and self._core.catalog.lookup(name) is None:
            return f"nothing is reported into {SYSSTREAM} yet; ALTER SYSTEM SET statistics = on begins it"
        return ""

    def names(self) -> list[str]:
        """The names that something can be selected from."""
        return self._core.catalog.names()

    def reductions(self) -> list[str]:
        """The names of registered reduction functions."""
        return list(self._core.catalog.reductions)

    def window_kinds(self) -> dict[str, tuple[str, int]]:
        """References and lengths of registered kinds of windows, by name in small letters."""
        return {name: (kind.reference, kind.length) for name, kind in self._core.catalog.kinds.items()}

    def functions(self) -> dict[str, FunctionDefinition]:
        """Registered functions, by name in small letters."""
        return self._core.catalog.functions


class RowQueries:
    """Adds row queries to the register of an open pond."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.names = Names(core)
        self._binder = Binder(self.names)

    def bind(self, text: str) -> BoundQuery | Selection:
        """A SELECT as text, bound; quick for shapes that were seen before.

        Raises: StatementError, with the place in the text.
        """
        return self._binder.bind(text)

    def forget(self) -> None:
        """Bind texts anew from now on: names of functions mean something else."""
        self._binder = Binder(self.names)

    def new(
        self,
        selection: Selection,
        text: str,
        name: str | None = None,
        owner: str = "",
        options: QueryOptions | None = None,
        replaces: int | None = None,
        previous: tuple[int, ...] = (),
        version: int = 1,
    ) -> NewSelection:
        """What the register is to take in.

        Raises: Refusal when an option is not one of row queries; QueryError when a stream is gone.
        """
        options = options or QueryOptions()
        check_row_options(options)
        catalog = self._core.catalog
        streams = []
        for side in selection.sides:
            stream = catalog.stream(side.stream)
            if stream is None:
                raise QueryError(f"the stream '{side.stream}' was dropped meanwhile")
            streams.append(stream.id)
        return NewSelection(
            selection,
            tuple(streams),
            text,
            name,
            owner,
            options,
            self._core.published.epoch,
            replaces,
            version,
            previous,
        )

    def add(self, queries: Sequence[NewSelection], limit: int | None = None) -> list[int]:
        """Register, durably, all or none; their ids. Many threads that come at once share one write.

        Raises: QueryError as `Register.add`.
        """
        ids = self._core.register.add(queries, limit)
        for number, query in zip(ids, queries, strict=True):
            if query.options.materialize == "complete":
                ready_of(self._core).keeper.declare(number, "complete")
        return ids
