"""Every limit that the OpenAPI document states is kept: what breaks it is refused, and the refusal says the limit."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from millpond.server import Limits
from millpond.server.openapi import openapi
from millpond.server.routes import OPERATIONS
from tests.server.conftest import Served

#: Bodies that are right, by operation; each with what leads from it to the limits of one alternative.
BODIES: dict[str, list[Any]] = {
    "run": [{"statements": "SHOW STREAMS", "limit": 5}],
    "register": [
        {"query": "SELECT v FROM s", "name": "n", "materialize": "none", "options": {}},
        {"queries": ["SELECT v FROM s"], "names": ["m"], "materialize": "none"},
    ],
    "drain": [{"final": False}],
    "ingest": [{"rows": [{"k": "a"}]}],
}

#: Words of a schema that state no limit.
SAYS = {"description", "default", "properties", "items", "oneOf", "anyOf", "not", "x-limit", "required"}

Place = tuple[str | int, ...]
Case = tuple[str, Place, Any, str]


def wrong(schema: dict[str, Any], place: Place = ()) -> Iterator[Case]:
    """What a schema refuses: the limit, where, a value that breaks it, and what the refusal has to say."""
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    for word, bound in schema.items():
        if word in ("minimum", "exclusiveMinimum"):
            yield word, place, bound - (word == "minimum"), f"{bound:g}"
        elif word == "maximum":
            yield word, place, bound + 1, f"{bound:,}"
        elif word == "minLength":
            yield word, place, "x" * (bound - 1), f"{bound:,}"
        elif word == "maxLength":
            yield word, place, "x" * (bound + 1), f"{bound:,}"
        elif word == "enum":
            yield word, place, "no such word", str(bound[0])
        elif word == "pattern":
            yield word, place, "\x00", "characters"
        elif word in ("minItems", "maxItems"):
            yield word, place, ["x"] * (bound + (1 if word == "maxItems" else -1)), f"{bound:,}"
        elif word == "type":
            yield word, place, {"no": "such"} if "object" not in types else "text", str(place[-1] if place else "body")
        elif word == "additionalProperties":
            if bound is False:
                yield word, (*place, "nonsense"), 1, "nonsense"
        else:
            assert word in SAYS, f"teach this test what '{word}' forbids"
    for name in schema.get("required", ()):
        yield "required", (*place, name), None, name
    for name, inside in schema.get("properties", {}).items():
        yield from wrong(inside, (*place, name))
    if types == ["array"] or "items" in schema:
        yield from wrong(schema["items"], (*place, 0))
    for alternative in schema.get("anyOf", ()):
        # What any other form takes is no limit.
        if set(alternative) & {"enum", "minimum", "exclusiveMinimum", "maximum"}:
            yield from (case for case in wrong(alternative, place) if case[0] != "type")


def put(body: Any, place: Place, value: Any, word: str) -> Any:
    """A body with another value at a place; without it where it is missing that is wrong."""
    body = copy.deepcopy(body)
    if not place:
        return value
    inside = body
    for step in place[:-1]:
        if isinstance(step, str):
            inside.setdefault(step, {})
        inside = inside[step]
    if word == "required":
        del inside[place[-1]]
    else:
        inside[place[-1]] = value
    return body


DOCUMENT = openapi(OPERATIONS, "0", Limits())
FOUND = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}


def cases_of_bodies() -> Iterator[tuple[str, str, Any, str]]:
    """Operation, what is wrong, the body, what is said."""
    for name, (_, _, operation) in FOUND.items():
        schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        if schema is None or "anyOf" in schema:  # anything will do
            continue
        alternatives = schema.get("oneOf", [schema])
        for right in BODIES[name]:
            alternative = next(a for a in alternatives if set(a["required"]) <= set(right))
            for word, place, value, said in wrong(alternative):
                said = str(place[1]) if place[:1] == ("options",) and place[1:] else said  # in words of their own
                yield name, f"{'.'.join(map(str, place))} {word}", put(right, place, value, word), said


def cases_of_parameters() -> Iterator[tuple[str, str, dict[str, Any], Any, str]]:
    """Operation, what is wrong, the parameter, its value, what is said."""
    for name, (_, _, operation) in FOUND.items():
        for parameter in operation["parameters"]:
            for word, _, value, said in wrong(parameter["schema"], (parameter["name"],)):
                if word != "type" or parameter["schema"]["type"] != "string":  # everything is a text
                    yield name, f"{parameter['name']} {word}", parameter, value, said


def test_bodies(served: Served) -> None:
    raw, count = served.raw(), 0
    for name, what, body, said in cases_of_bodies():
        method, path, _ = FOUND[name]
        reply = raw(method, path.replace("{stream}", "s"), body)
        assert reply.status in (400, 413), (name, what, reply.status, reply.body[:300])
        assert said in reply.json["message"], (name, what, reply.json)
        count += 1
    assert count > 50


def test_parameters(served: Served) -> None:
    raw, count = served.raw(), 0
    for name, what, parameter, value, said in cases_of_parameters():
        method, path, operation = FOUND[name]
        text = value if isinstance(value, str) else json.dumps(value)
        asked, headers = path, {}
        if parameter["in"] == "path":
            if not text:
                continue  # another path
            asked = asked.replace("{" + parameter["name"] + "}", quote(text, safe=""))
        elif parameter["in"] == "header":
            if any(ord(c) < 32 for c in text):
                text = "\x7f"
            headers = {parameter["name"]: text}
        for other in operation["parameters"]:
            asked = asked.replace("{" + other["name"] + "}", "q" if other["name"] == "query" else "s")
        asked += "?" + urlencode({parameter["name"]: text}) if parameter["in"] == "query" else ""
        body = BODIES[name][0] if name in BODIES else None
        reply = raw(method, asked, body, headers)
        assert reply.status in (400, 413), (name, what, reply.status, reply.body[:300])
        if not reply.headers["content-type"].startswith("text/plain"):  # HTTP itself has no such headers
            message = reply.json["message"]
            assert said in message or parameter["name"] in message, (name, what, message)
        count += 1
    assert count > 50


def test_limits_of_a_server_stand_in_its_document(guarded: Served, tmp_path: Path) -> None:
    document = guarded.raw("read")("GET", "/v1/openapi.json").json
    bounds = {p["schema"]["maximum"] for methods in document["paths"].values() for o in methods.values()
              for p in o["parameters"] if p["schema"].get("x-limit") == "answer_rows"}  # fmt: skip
    script = document["paths"]["/v1/statements"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert bounds == {100} == {script["properties"]["limit"]["maximum"]}
    reply = guarded.raw("read")("POST", "/v1/statements", {"statements": "SHOW STREAMS", "limit": 101})
    assert reply.status == 413 and reply.json["limit"] == "answer_rows"
    assert guarded.raw("read")("POST", "/v1/statements", {"statements": "SHOW STREAMS", "limit": 100}).status == 200
