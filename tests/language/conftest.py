"""A small catalog for tests of the language."""

from __future__ import annotations

import pytest

from millpond.language import parse
from millpond.language.plan.binding import bind_query
from millpond.types import FunctionDefinition, QueryDefinition, StreamDefinition, TableDefinition

DECLARATIONS = """
CREATE STREAM reading (ts TIMESTAMP, sensor TEXT, mph DOUBLE, n INTEGER, price DECIMAL(10, 2), tags TEXT[],
                       s STRUCT(x INTEGER, "the y" TEXT), ok BOOLEAN, "Odd Name" INTEGER, d DATE)
  WITH (lateness = '5s');
CREATE STREAM clicks (page TEXT) WITH (event_time = 'arrival');
CREATE TABLE sensors (id TEXT, place TEXT) WITH (path = 'sensors.csv');
CREATE QUERY slow AS SELECT sensor, avg(mph) AS mph FROM reading [RANGE 5 MINUTES SLIDE 1 MINUTE] GROUP BY sensor;
"""


class Catalog:
    """Definitions by name."""

    def __init__(self) -> None:
        self.definitions: dict[str, StreamDefinition | TableDefinition | QueryDefinition] = {}
        for statement in parse(DECLARATIONS):
            if hasattr(statement, "definition"):
                self.definitions[statement.definition.name.lower()] = statement.definition
            else:
                bound = bind_query(statement.select, self)
                self.definitions[statement.name] = QueryDefinition(statement.name, bound, statement.options)

    def lookup(self, name: str) -> StreamDefinition | TableDefinition | QueryDefinition | None:
        return self.definitions.get(name.lower())

    def names(self) -> list[str]:
        return [d.name for d in self.definitions.values()]

    def by_time(self, stream: StreamDefinition, column: str) -> None:
        return None

    def reductions(self) -> list[str]:
        return ["mine"]

    def functions(self) -> dict[str, FunctionDefinition]:
        return {}

    def missing(self, name: str) -> str:
        return ""

    def window_kinds(self) -> dict[str, tuple[str, int]]:
        return {}


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return Catalog()
