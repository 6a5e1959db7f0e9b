"""Queries whose answers could not be read, and why: SHOW QUERIES tells it until a reading succeeds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from millpond.support.errors import PondError, QueryError
from millpond.synopses.tolerance import one_line


@dataclass(frozen=True)
class Unreadable:
    """Queries whose answers could not be read when they were asked for last. reasons: by id."""

    reasons: dict[int, str] = field(default_factory=dict)

    @contextmanager
    def watching(self, query: int, name: str) -> Iterator[None]:
        """Around the reading of a query's answers: note what fails, and forget it when nothing does.

        Raises: QueryError for what fails.
        """
        try:
            yield
        except QueryError:
            raise
        except (PondError, duckdb.Error, pa.ArrowException, OSError, ValueError, TypeError) as error:
            self.reasons[query] = one_line(error)
            wanted = f"look for damage with `millpond check`; CREATE OR REPLACE QUERY {name} … makes them anew"
            raise QueryError(f"the answers of '{name}' cannot be read: {one_line(error)}; {wanted}") from error
        self.reasons.pop(query, None)
