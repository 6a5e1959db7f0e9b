"""Limits per owner and request, pages, and what a role may do when it may."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import millpond
from millpond.server.access.limits import Limits, Load
from millpond.support.errors import PondError
from tests.server.conftest import Served, rows

QUERY = "CREATE QUERY {} AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 SECOND]"


def run(served: Served, role: str, script: str) -> Any:
    return served.raw(role)("POST", "/v1/statements", {"statements": script})


def filled(served: Served) -> None:
    served.pond.ingest("s", rows(0, 60))
    served.pond.drain()


def test_queries_per_owner(guarded: Served) -> None:
    for name in ("a", "b", "c"):
        assert run(guarded, "write", QUERY.format(name)).status == 200
    reply = run(guarded, "write", QUERY.format("d"))
    assert reply.status == 403 and reply.json["limit"] == "queries_per_owner"
    assert run(guarded, "other", QUERY.format("d")).status == 200
    assert guarded.raw("write")("DELETE", "/v1/queries/a").status == 204
    assert run(guarded, "write", QUERY.format("e")).status == 200
    assert run(guarded, "admin", "DROP QUERY e").status == 200  # an admin may, and it counts no more
    assert run(guarded, "write", QUERY.format("f")).status == 200


def test_owners_change_their_own_queries_only(guarded: Served) -> None:
    assert run(guarded, "write", QUERY.format("mine")).status == 200
    assert run(guarded, "other", "DROP QUERY mine").status == 403
    assert guarded.raw("other")("POST", "/v1/queries/mine/pause").status == 403
    assert guarded.raw("write")("POST", "/v1/queries/mine/pause").status == 200
    assert guarded.raw("read")("GET", "/v1/queries/mine").json["owner"] == "write"
    assert run(guarded, "write", QUERY.format("two") + "; DROP QUERY two; DROP QUERY mine").status == 200


def test_owners_outlive_a_restart(guarded: Served) -> None:
    from millpond.server.access.owners import Owners

    assert run(guarded, "write", QUERY.format("mine")).status == 200
    query = guarded.pond.query("mine").id
    assert Owners(guarded.pond.path).of(query) == "write"
    with open(f"{guarded.pond.path}/server/owners.jsonl", "ab") as file:
        file.write(b'{"owner": "torn')
    assert Owners(guarded.pond.path).of(query) == "write"
    assert Owners(guarded.pond.path).count("write") == 1


def test_subscriptions_per_owner(guarded: Served) -> None:
    filled(guarded)
    with guarded.connect("read") as pond:
        held = [pond.subscribe("q", timeout=30) for _ in range(2)]
        for subscription in held:
            next(subscription)
        reply = guarded.raw("read")("GET", "/v1/queries/q/subscription?timeout=0")
        assert reply.status == 429 and reply.json["limit"] == "subscriptions_per_owner" and reply.headers["retry-after"]
        assert guarded.raw("write")("GET", "/v1/queries/q/subscription?timeout=0").status == 200
        for subscription in held:
            subscription.close()
        for _ in range(1200):  # the server notices soon
            if guarded.raw("read")("GET", "/v1/queries/q/subscription?timeout=0").status == 200:
                break
            threading.Event().wait(0.1)
        else:
            pytest.fail("closed subscriptions are still counted")


def test_requests_in_flight() -> None:
    load = Load(Limits(requests=3, requests_per_owner=2))
    with load.request("a"), load.request("a"):
        with pytest.raises(Exception, match="requests_per_owner") as caught, load.request("a"):
            pass
        assert caught.value.status == 429  # type: ignore[attr-defined]  # the kind that the test made
        with (
            load.request("b"),
            pytest.raises(Exception, match="'requests'") as caught,
            load.request("c"),
        ):
            pass
        assert caught.value.status == 503  # type: ignore[attr-defined]  # the kind that the test made
    assert load.requests == 0


def test_pages_of_statements(guarded: Served) -> None:
    filled(guarded)
    raw = guarded.raw("read")
    result = raw("POST", "/v1/statements", {"statements": "SELECT v FROM s ORDER BY v"}).json["results"][0]
    found, cursor = [r["v"] for r in result["rows"]], result["next"]
    assert result["row_count"] == 60 and len(found) == 10
    first = cursor
    while cursor:
        reply = raw("GET", f"/v1/pages/{cursor}?limit=7")
        assert reply.status == 200 and len(reply.json["rows"]) <= 7
        found += [r["v"] for r in reply.json["rows"]]
        cursor = reply.json["next"]
    assert found == list(range(60))
    assert raw("GET", f"/v1/pages/{first}").status == 410
    result = raw("POST", "/v1/statements", {"statements": "SELECT v FROM s"}).json["results"][0]
    assert guarded.raw("write")("GET", f"/v1/pages/{result['next']}").status == 410  # another owner's answer


def test_pages_of_answers_see_one_prefix(guarded: Served) -> None:
    guarded.pond.sql(
        "CREATE QUERY wide AS SELECT v, count(*) AS n FROM s [RANGE 1 HOUR SLIDE 1 HOUR] GROUP BY v ORDER BY v"
    )
    filled(guarded)
    raw = guarded.raw("read")
    page = raw("GET", "/v1/queries/wide/answer?limit=25")
    assert page.headers["x-millpond-epoch"] == str(page.json["epoch"]) == "1"
    assert page.json["now"] == page.headers["x-millpond-now"] == "2026-01-01T00:00:59.000000Z"
    found = [r["v"] for r in page.json["rows"]]
    guarded.pond.ingest("s", rows(60, 90))
    guarded.pond.drain()
    cursors = []
    while cursor := page.json["next"]:
        cursors.append(cursor)
        page = raw("GET", f"/v1/queries/wide/answer?cursor={cursor}&limit=25")
        assert page.json["epoch"] == 1
        found += [r["v"] for r in page.json["rows"]]
    assert found == list(range(60))
    again = raw("GET", f"/v1/queries/wide/answer?cursor={cursors[-1]}&format=csv")  # not held any more: made again
    assert again.status == 200 and again.headers["x-millpond-epoch"] == "1" and again.body.count(b"\n") == 11
    assert raw("GET", "/v1/queries/wide/answer?limit=101").json["limit"] == "answer_rows"
    with guarded.connect("read") as pond:
        assert len(pond.query("wide").result()) == 90


def test_formats(guarded: Served) -> None:
    filled(guarded)
    raw = guarded.raw("read")
    for accept, media in [
        ("*/*", "application/json"),
        ("text/html, text/*;q=0.5", "text/csv"),
        ("application/json;q=0.1, application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.stream"),
    ]:
        reply = raw("GET", "/v1/queries/q/answer", None, {"Accept": accept})
        assert reply.headers["content-type"].startswith(media)
        assert reply.headers["x-content-type-options"] == "nosniff"
    assert raw("GET", "/v1/queries/q/answer", None, {"Accept": "image/png"}).status == 406


def test_metrics_and_health(guarded: Served) -> None:
    filled(guarded)
    text = guarded.raw("read")("GET", "/v1/metrics").body.decode()
    assert 'millpond_stream_rows_total{stream="s"} 60.0' in text and "millpond_http_requests_in_flight 1.0" in text
    assert guarded.raw()("GET", "/v1/health").json == {"status": "ok"}
    assert guarded.raw()("GET", "/v1/metrics").status == 401


def test_the_client_names_what_is_wrong(guarded: Served) -> None:
    with pytest.raises(PondError, match="needs a token"):
        millpond.connect(guarded.url)
    with pytest.raises(PondError, match="needs a token"):
        millpond.connect(guarded.url, "wrong")
    with pytest.raises(PondError, match="not the address"):
        millpond.connect("ftp://localhost")
    with pytest.raises(PondError, match="printable"):
        millpond.connect(guarded.url, "a\r\nX-Evil: 1")
    with guarded.connect("read") as pond, pytest.raises(PondError, match="role 'write'"):
        pond.ingest("s", rows(0, 1))
    assert "secret" not in repr(guarded.connect("read"))


def test_kept_replies_are_of_the_last_epoch(served: Served) -> None:
    filled(served)
    raw = served.raw()
    first = raw("GET", "/v1/queries/q/answer")
    assert raw("GET", "/v1/queries/q/answer").body == first.body
    served.pond.ingest("s", rows(60, 75))
    served.pond.drain()
    second = raw("GET", "/v1/queries/q/answer").json
    assert second["epoch"] == 2 and second["rows"] != first.json["rows"]
    again = raw("GET", "/v1/queries/q/answer?as_of=epoch:1").json["rows"]
    assert [r["v"] for r in again] == [r["v"] for r in first.json["rows"]]
    served.pond.sql("DROP QUERY q")
    assert raw("GET", "/v1/queries/q/answer").status == 404
