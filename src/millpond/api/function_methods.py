"""Registered functions as a part of `Pond`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millpond.answers.describe.plan_log_table import plan_log_table
from millpond.commands.execution.function_keeping import UserFunctions
from millpond.commands.function_commands import NewFunction
from millpond.engine.core import Core
from millpond.support.errors import QueryError


class Functions:
    """What a pond offers of registered functions: a part of `Pond`."""

    _core: Core
    _functions: UserFunctions

    if TYPE_CHECKING:

        def _check(self) -> None:
            """Refuse to go on when the pond is closed or has failed; `Pond` does it."""

    def register_function(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        arguments: Sequence[str],
        returns: str = "BOOLEAN",
        vectorised: bool = False,
        cost: float | None = None,
    ) -> str:
        """Make a function of yours callable in queries; it is there again after a restart.

        Only who holds the pond itself can do so: the function is Python that runs in its process and its workers.

        Arguments:
            name: letters, digits and _; case does not matter. function: pure and deterministic. It is called with the
                values of a row; a row with NULL among its arguments gives NULL without a call. What it raises puts the
                row among the dead letters.
            arguments, returns: types as in SQL. vectorised: it is called with an Arrow array for each argument and
                gives an array (or a list, or of NumPy) of the same length.
            cost: microseconds that a row takes, about; the order of filters starts with it, and then measures.
        Returns: what there is to say.
        Raises: QueryError when the name cannot be one or is in use, a type is none, or it cannot be pickled.

            >>> import tempfile, millpond
            >>> with millpond.open(tempfile.mkdtemp(), executor="inline") as pond:
            ...     pond.register_function("odd", lambda n: n % 2 == 1, arguments=["BIGINT"])
            'function odd registered'
        """
        self._check()
        return self._functions.register(NewFunction(name, function, arguments, returns, vectorised, cost))

    def register_aggregate(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        arguments: Sequence[str],
        returns: str,
        vectorised: bool = False,
        mergeable: bool = False,
    ) -> str:
        """Make an aggregate of yours callable in queries; it is there again after a restart.

        It is made of all rows of a group, which windows keep as they keep those of `list(…)`: state grows with rows.
        With `mergeable` windows keep one state of yours for each pane and group instead.

        Arguments:
            name: as of `register_function`. function: pure and deterministic. It is called once for each group, with a
                list of values for each argument, NULL as None, in the order of the stream or of ORDER BY in the call;
                of no rows the answer is NULL without a call. What it raises fails the queries that call it alone.
            arguments, returns: types, of the value of a row and of the answer. vectorised: it is called with an Arrow
                array of lists for each argument, a list to a group, and gives an array of as many answers.
            mergeable: `function` is a class or an object with `add(*columns)`, the state of some rows of a group, given
                as an Arrow array for each argument; `merge(one, other)`; and `finish(state)`, the answer. A state is
                bytes or what `json` writes, of at most 64 KiB; neither order nor grouping may make a difference, which
                `millpond.testing.merge_faults` tries.
        Returns: what there is to say.
        Raises: QueryError as `register_function`.

            >>> import tempfile, millpond
            >>> with millpond.open(tempfile.mkdtemp(), executor="inline") as pond:
            ...     pond.register_aggregate("spread", lambda v: max(v) - min(v), arguments=["DOUBLE"], returns="DOUBLE")
            'aggregate spread registered'
        """
        self._check()
        return self._functions.register(
            NewFunction(name, function, arguments, returns, vectorised, None, True, mergeable)
        )

    def drop_function(self, name: str) -> str:
        """Forget a registered function. Raises: QueryError when there is none of that name, or queries call it."""
        self._check()
        return self._functions.drop(name)

    def functions(self) -> list[str]:
        """The registered functions as they are called: `match(VARCHAR, VARCHAR) -> BOOLEAN`."""
        self._check()
        return [d.signature for _, d in sorted(self._core.catalog.functions.items())]

    def plans(self, name: str) -> pa.Table:
        """The plan log of a query or derived stream with registered functions in its WHERE: when which order was
        chosen, and under which statistics.

        Returns: time, epoch, plan and under (filters in their new and former order), changed, rows (seen since the line
            before), statistics (by filter the share of rows that it passed where it stood), microseconds (that a row
            takes, by filter), reason.
        Raises: QueryError when there is none of that name.
        """
        self._check()
        found = self._core.catalog.query(name) or self._core.catalog.stream(name)
        if found is None:
            if self._core.register.by_name(name) is not None:
                raise QueryError(
                    f"'{name}' is a row query: its functions are asked about every row, in no order that changes"
                )
            raise QueryError(f"there is no window query, relation or stream '{name}'")
        return plan_log_table(self._core, found)
