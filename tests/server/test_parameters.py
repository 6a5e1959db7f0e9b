"""Rubbish in any parameter of any operation is a wrong request: 400, which names the parameter and says what it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from millpond.server.operations import Operation
from millpond.server.parameters import Parameter
from millpond.server.routes import OPERATIONS
from tests.quick import quick_folder
from tests.server.conftest import Raw, Served, _served

QUERIES = {
    "window": "SELECT k, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k",
    "session": "SELECT k, count(*) AS n FROM s [SESSION 10 SECONDS] GROUP BY k",
    "by_rows": "SELECT count(*) AS n FROM s [ROWS 3 SLIDE 3]",
    "relation": "SELECT ISTREAM(k, v) FROM s [RANGE 10 SECONDS]",
    "of_rows": "SELECT k, v FROM s WHERE v > 1 BEGIN NOW - 5 MINUTES END NOW",
}
#: What no parameter that is read, but for names and keys, can be.
RUBBISH = ["yesterday", "  ", "NaN", "1e400", "NOW -", "NOW - 5", "NOW - 1 MONTH", "NOW - INTERVAL 'x'",
           "TIMESTAMP 'x'", "epoch:", "epoch:-1", "epoch:x", "2026-02-30", "infinity", "NOW; DROP QUERY window",
           "NOW END NOW", "null", "🦆", "'", "[1]", "{}", "a" * 5_000, "\0"]  # fmt: skip
#: Parameters that are cursors, and texts that may be anything, up to a length.
CURSORS = {"cursor", "since", "Last-Event-ID"}
FREE = {"prefix", "partition", "Idempotency-Key"}
BODIES = {"run": {"statements": "SELECT 1"}, "ingest": {"rows": []}, "register": {"query": "SELECT v FROM s"}}


@pytest.fixture(scope="module")
def asked() -> Iterator[Raw]:
    """A server with a query of every kind."""
    with quick_folder() as path:
        served: Served
        for served in _served(Path(path), None, None):
            for name, text in QUERIES.items():
                served.pond.sql(f'CREATE QUERY "{name}" AS {text}')
            served.pond.ingest("s", [{"ts": f"2026-01-01 00:00:{t:02}", "k": "a", "v": t} for t in range(30)])
            served.pond.drain()
            yield served.raw()


PAIRS = [(o, p) for o in OPERATIONS for p in o.parameters if p.place != "path" and p.name not in FREE]


@pytest.mark.parametrize(("operation", "parameter"), PAIRS, ids=[f"{o.name}-{p.name}" for o, p in PAIRS])
def test_rubbish_is_a_wrong_request(asked: Raw, operation: Operation, parameter: Parameter) -> None:
    names = QUERIES if "{query}" in operation.path else ["s"]
    for name in names:
        for text in RUBBISH:
            path, headers = operation.path, {}
            for each in operation.parameters:
                if each.place == "path":
                    path = path.replace(f"{{{each.name}}}", "s" if each.name == "stream" else name)
            if parameter.place == "header":
                if not text.isascii() or not text.isprintable() or not text.strip():
                    continue  # no header has it
                headers = {parameter.name: text}
            else:
                path += f"?{parameter.name}={quote(text, safe='')}"
            reply = asked(operation.method, path, BODIES.get(operation.name), headers)
            assert reply.status == 400, (path, reply.status, reply.body[:300])
            message = reply.json["message"]
            assert parameter.name in message or ("cursor" in message and parameter.name in CURSORS), (path, message)
            assert json.loads(reply.body)["error"] in ("bad_request", "QueryError"), message


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if "{" in o.path], ids=lambda o: o.name)
def test_names_that_nothing_has(asked: Raw, operation: Operation) -> None:
    for text in RUBBISH:
        wrong = operation.name == "page" or text == "\0" or len(text) > 4_000
        path = operation.path
        for each in operation.parameters:
            if each.place == "path":
                path = path.replace(f"{{{each.name}}}", quote(text, safe=""))
        reply = asked(operation.method, path, BODIES.get(operation.name))
        assert reply.status == (400 if wrong else 404), (path, reply.status, reply.body[:300])
        assert reply.json["message"]


def test_what_an_edge_may_be_is_said(asked: Raw) -> None:
    message = asked("GET", "/v1/queries/of_rows/answer?begin=yesterday").json["message"]
    assert message == (
        "begin = 'yesterday': pass an instant such as '2026-01-01 12:00:00' (UTC unless it has an offset), "
        "or a text such as 'NOW - INTERVAL 5 MINUTES'"
    )
    message = asked("GET", "/v1/queries/of_rows/answer?end=NOW%20-%205").json["message"]
    assert "5 of what? A unit of time is missing; pass an instant" in message
    message = asked("GET", "/v1/queries/of_rows/answer?as_of=yesterday").json["message"]
    assert message.startswith("'as_of' is watermark, epoch:<number>, or an instant such as")
