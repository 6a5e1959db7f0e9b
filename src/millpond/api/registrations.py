"""The register of queries as a part of `Pond`, and the kinds of windows that they may have."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from millpond.api.handle import QueryHandle, handle_of
from millpond.commands.execution.bulk_registration import Terms, register_all
from millpond.commands.execution.interpreter import Interpreter
from millpond.commands.execution.kind_keeping import WindowKinds
from millpond.commands.execution.performing import CarryOut
from millpond.engine.control.loop import InlineLoop, SparkLoop
from millpond.engine.core import Core
from millpond.support.errors import QueryError
from millpond.types import QueryOptions
from millpond.types.options import OptionFault, options_of, read
from millpond.windows.protocol import WindowKind


class Registrations:
    """What a pond offers of queries that are registered from Python: a part of `Pond`."""

    _core: Core
    _carry_out: CarryOut
    _interpreter: Interpreter
    _kinds: WindowKinds
    _loop: InlineLoop | SparkLoop

    if TYPE_CHECKING:

        def _check(self) -> None:
            """Refuse to go on when the pond is closed or has failed; `Pond` does it."""

    def register(
        self,
        text: str,
        name: str | None = None,
        owner: str = "",
        materialize: str = "auto",
        *,
        limit: int | None = None,
        **options: Any,
    ) -> QueryHandle:
        """Register a SELECT; when this returns it is durable. The handle is to be had again by `query`.

        Arguments:
            text: a row query (`SELECT … FROM s WHERE … [BEGIN b END e]`) or a window query (`… FROM s [RANGE …]`).
            name: None: it is called '#<id>'. owner: whom it counts for. limit: queries that the owner may have.
            materialize: how much of a row query's answer is kept ready: 'auto', 'partial', 'complete', 'none'.
            options: as WITH has them: texts, or spans of time as timedelta or in microseconds, instants as datetime or
                in microseconds since 1970.
        Raises: StatementError with the place in the text; QueryError when the name is taken or a limit is reached.

            >>> import tempfile, millpond
            >>> with millpond.open(tempfile.mkdtemp(), executor="inline") as pond:
            ...     _ = pond.sql("CREATE STREAM s (ts TIMESTAMP, a INTEGER) WITH (event_time = 'ts')")
            ...     pond.register("SELECT a FROM s WHERE a > 3").id
            2
        """
        return self._register([text], [name], owner, self._options(materialize, options), limit)[0]

    def register_many(
        self,
        texts: Sequence[str],
        names: Sequence[str | None] | None = None,
        owner: str = "",
        materialize: str = "auto",
        *,
        limit: int | None = None,
    ) -> list[QueryHandle]:
        """Register many queries, all or none of them, with one write for the row queries.

        Arguments and errors as `register`; `names`: one per text.
        """
        if names is not None and len(names) != len(texts):
            raise QueryError(f"there are {len(texts)} queries and {len(names)} names")
        return self._register(texts, names or [None] * len(texts), owner, self._options(materialize, {}), limit)

    def register_window_kind(self, name: str, kind: WindowKind, times: Iterable[dt.datetime | int] = ()) -> str:
        """Register a kind of windows of your own: `FROM s [KIND name]` takes its windows then, on any stream.

        Arguments:
            name: letters, digits and _.
            kind: has windows(), extent() and wids() (`millpond.windows.protocol.WindowKind`): pure
                functions, which are pickled for the workers. Two attributes help: `grid`, microseconds on whose
                multiples all windows start and end, so that times between need not be asked for; `longest`,
                microseconds that no window is longer than, so that a registration reads no more of the archive.
            times: more times to try it on, beside those that are tried anyhow (1970 to 2100).
        Returns: what there is to say.
        Raises: QueryError when its functions disagree, or the name stands for other windows.

        Only who opens the pond can do this: it is code. A pond keeps the name and which windows it stands for, not the
        code; `millpond.open(…, window_kinds={name: kind})` gives it again.
        """
        self._check()
        return self._kinds.register(name, kind, times)

    def drop_window_kind(self, name: str) -> str:
        """Drop a registered kind of windows. Raises: QueryError while queries use it."""
        self._check()
        return self._kinds.drop(name)

    def query(self, name_or_id: str | int) -> QueryHandle:
        """The handle of a registered query, by its name ('#<id>' for one without) or its id.

        Raises: QueryError when there is none.
        """
        self._check()
        core = self._core
        if isinstance(name_or_id, int):
            if name_or_id not in core.register and name_or_id not in core.catalog.queries:
                raise QueryError(f"there is no query #{name_or_id}")
            return self._handle(name_or_id)
        standing = core.catalog.query(name_or_id)
        number = standing.id if standing is not None else core.register.id_of(name_or_id)
        if number is None:
            raise QueryError(f"there is no query '{name_or_id}'")
        return self._handle(number)

    def _options(self, materialize: str, options: dict[str, Any]) -> QueryOptions:
        try:
            return QueryOptions(**read(options_of(QueryOptions), {"materialize": materialize, **options}))
        except OptionFault as fault:
            raise QueryError(str(fault)) from None

    def _register(
        self, texts: Sequence[str], names: Sequence[str | None], owner: str, options: QueryOptions, limit: int | None
    ) -> list[QueryHandle]:
        self._check()
        wanted = [*zip(texts, names, strict=True)]
        numbers = register_all(
            self._carry_out, self._interpreter.rows, wanted, Terms(owner, options, limit), self._drop
        )
        if any(number in self._core.catalog.queries for number in numbers):
            self._loop.kick()
        return [self._handle(number) for number in numbers]

    def _handle(self, number: int) -> QueryHandle:
        return handle_of(self._core, number, self._loop.kick)

    def _drop(self, number: int) -> None:
        self._handle(number).drop()
