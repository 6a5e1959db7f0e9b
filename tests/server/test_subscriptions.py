"""Server-sent events: cursors, Last-Event-ID, waiting and leaving clients, the end of a query or of the server."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

import millpond
from millpond.server.serve import serving
from tests.server.conftest import Served, rows


def fill(served: Served, start: int, stop: int) -> None:
    served.pond.ingest("s", rows(start, stop))
    served.pond.drain()


def events(served: Served, query: str = "", headers: dict[str, str] | None = None) -> list[tuple[str, str, Any]]:
    """All events of a subscription that ends by itself: id, event, data."""
    reply = served.raw()("GET", f"/v1/queries/q/subscription?timeout=0.2{query}", None, headers)
    assert reply.status == 200 and reply.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in reply.body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
    return found


def test_events_have_cursors_to_go_on_from(served: Served) -> None:
    fill(served, 0, 25)
    fill(served, 25, 45)
    whole = events(served)
    assert [kind for _, kind, _ in whole] == ["answers", "answers", "end"]
    assert all(identifier == data["cursor"] for identifier, kind, data in whole[:2])
    assert whole[0][2]["rows"][0].keys() == {"window_start", "window_end", "k", "v", "revision", "op"}
    cursor = whole[0][0]
    assert events(served, f"&since={cursor}")[0] == whole[1]
    assert events(served, "", {"Last-Event-ID": cursor})[0] == whole[1]
    assert [kind for _, kind, _ in events(served, f"&since={whole[1][0]}")] == ["end"]


def test_large_batches_come_in_parts(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millpond.server.handlers.subscription_handlers._MOST_ROWS", 2)
    fill(served, 0, 45)
    parts = events(served)[:-1]
    everything = [r for _, _, data in parts for r in data["rows"]]
    assert len(parts) > 2 and len({cursor for cursor, _, _ in parts}) == len(parts)
    for number, (cursor, _, _) in enumerate(parts):
        rest = [r for _, kind, data in events(served, f"&since={cursor}") if kind == "answers" for r in data["rows"]]
        assert rest == everything[2 * (number + 1) :]


def test_answers_arrive_while_one_waits(served: Served) -> None:
    fill(served, 0, 25)
    with served.connect() as pond:
        subscription = pond.subscribe("q", timeout=300)
        first = next(subscription)
        threading.Timer(0.3, fill, (served, 25, 45)).start()
        second = next(subscription)
        assert second.epoch == first.epoch + 1
        subscription.close()


def test_the_end_of_a_query_ends_its_subscriptions(served: Served) -> None:
    fill(served, 0, 25)
    with served.connect() as pond:
        subscription = pond.subscribe("q", timeout=300)
        next(subscription)
        threading.Timer(0.3, pond.query("q").drop).start()
        assert list(subscription) == []


def test_many_waiting_subscribers_cost_no_threads(served: Served) -> None:
    fill(served, 0, 25)
    before = threading.active_count()
    with served.connect() as pond:
        waiting = [pond.subscribe("q", timeout=300) for _ in range(30)]
        for subscription in waiting:
            next(subscription)
        assert threading.active_count() <= before + 12  # the server's pool
        fill(served, 25, 45)
        for subscription in waiting:
            next(subscription)
            subscription.close()


def test_a_restarted_server_is_found_again(served: Served) -> None:
    fill(served, 0, 25)
    found: list[Any] = []
    with serving(served.pond) as url:
        port = int(url.rsplit(":", 1)[1])
        pond = millpond.connect(url)
        subscription = pond.subscribe("q", timeout=300)
        found.append(next(subscription))
    fill(served, 25, 45)
    with serving(served.pond, port=port):
        found.append(next(subscription))
        subscription.close()
    assert [b.cursor for b in found] == [b.cursor for b in served.pond.subscribe("q", timeout=0)]


def test_ingest_is_repeated_when_the_connection_breaks(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    import http.client

    with served.connect() as pond:
        pond.ingest("s", rows(0, 1))
        read, broken = http.client.HTTPResponse.read, []

        def once(self: Any, *arguments: Any) -> bytes:
            if not broken:
                broken.append(True)
                raise ConnectionResetError("in the middle of the answer")
            return read(self, *arguments)

        monkeypatch.setattr(http.client.HTTPResponse, "read", once)
        assert pond.ingest("s", rows(1, 5)) == 1
        assert broken
        pond.drain()
        assert pond.sql("SELECT count(*) FROM s").rows() == [(5,)]


def test_final_answers_come_once_and_in_parts(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millpond.server.handlers.subscription_handlers._MOST_ROWS", 2)
    fill(served, 0, 45)
    assert [kind for _, kind, _ in events(served, "&final=true")] == ["end"]  # a day of late rows is waited for
    assert events(served, "&status=closed")[0][1] == "answers"
    served.pond.drain(final=True)
    parts = events(served, "&final=true")[:-1]
    everything = [r for _, _, data in parts for r in data["rows"]]
    assert len(parts) > 2 and len(everything) == len(served.pond.sql("SELECT * FROM q FINAL").rows()) > 4
    for number, (cursor, _, _) in enumerate(parts):
        assert cursor.endswith(":final")
        rest = [r for _, kind, data in events(served, f"&since={cursor}") if kind == "answers" for r in data["rows"]]
        assert rest == everything[2 * (number + 1) :]
    wrong = served.raw()("GET", f"/v1/queries/q/subscription?timeout=0&since={parts[0][0]}&status=closed")
    assert wrong.status in (400, 409)
    with served.connect() as remote:
        batches = list(remote.subscribe("q", timeout=0, final=True))
        assert sum(b.rows.num_rows for b in batches) == len(everything)
        again = remote.query("q").subscribe(since=batches[0].cursor, timeout=0)
        assert sum(b.rows.num_rows for b in again) == len(everything) - batches[0].rows.num_rows
