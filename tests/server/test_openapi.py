"""The OpenAPI document: complete, valid, and kept by the server for whatever it allows (schemathesis)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import millpond
from millpond.server import Limits, create_app
from millpond.server.openapi import openapi
from millpond.server.routes import OPERATIONS
from millpond.server.schemas import REPORT
from millpond.types.results import DeadCause, DrainReport, QueryReport, StreamReport
from tests.server.conftest import SCRIPT, rows

EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "12"))
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The operations, as schemathesis reads them from a server in this process, with a stream and a query."""
    pond = millpond.open(str(tmp_path_factory.mktemp("openapi") / "pond"), executor="inline")
    pond.sql(SCRIPT)
    pond.ingest("s", rows(0, 30))
    pond.drain()
    app = create_app(pond, None, Limits(stall_seconds=5))
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", _without_lifespan(app), headers={"Host": "localhost"})
    found = [result.ok() for result in schema.get_all_operations()]
    yield {operation.definition.raw["operationId"]: operation for operation in found}
    app.service.close()
    pond.close()


def _without_lifespan(app: Any) -> Any:
    """The application for test clients that would start and stop it around every request."""

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        for event in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{event}.complete"})

    return wrapped


@pytest.mark.parametrize("name", [o.name for o in OPERATIONS if o.name not in ("subscribe", "openapi")])
def test_the_server_keeps_its_document(operations: dict[str, Any], name: str) -> None:
    @given(case=operations[name].as_strategy())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    def check(case: schemathesis.Case) -> None:
        case.call_and_validate(checks=CHECKS, headers={"Host": "localhost"})

    check()


def test_every_operation_is_described() -> None:
    document = openapi(OPERATIONS, "0", Limits())
    found = [(path, method) for path, methods in document["paths"].items() for method in methods]
    assert len(found) == len(OPERATIONS) == len({o.name for o in OPERATIONS})
    for methods in document["paths"].values():
        for operation in methods.values():
            assert operation["summary"] and operation["responses"]
            assert all(p["description"] for p in operation["parameters"])


def test_no_example_of_the_document_is_a_file() -> None:
    document = str(openapi(OPERATIONS, "0", Limits()))
    assert "/home" not in document and str(Path.cwd()) not in document


def test_a_report_has_the_fields_of_its_document() -> None:
    streams, queries = (REPORT["properties"][name]["items"] for name in ("streams", "queries"))
    causes = streams["properties"]["causes"]["items"]
    documented = ((DrainReport, REPORT), (StreamReport, streams), (QueryReport, queries), (DeadCause, causes))
    for kind, schema in documented:
        assert {f.name for f in fields(kind)} == set(schema["properties"]) == set(schema["required"])
