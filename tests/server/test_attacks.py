"""Attacks through query text, names, paths, headers and bodies. Each is refused with a 4xx, and the server stands."""

from __future__ import annotations

import base64
import json
import socket
import struct
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pyarrow as pa
import pytest

from millpond.support import wire
from tests.server.conftest import SECRETS, Raw, Served, rows

JSON = {"Content-Type": "application/json"}
LEAKS = (b"Traceback", b"/srv/secret", b"site-packages", b".py", *(s.encode() for s in SECRETS.values()))


@pytest.fixture(autouse=True)
def stands(attacked: Served) -> Iterator[None]:
    """After each attack the server answers, knows its stream, and has nothing new in it."""
    yield
    raw = attacked.raw("read")
    assert raw("GET", "/v1/health").json == {"status": "ok"}
    assert [s["name"] for s in raw("GET", "/v1/streams").json["streams"]] == ["s"]
    assert raw("GET", "/v1/queries/q").status == 200


def refused(reply: Any, *statuses: int) -> None:
    assert reply.status in (statuses or range(400, 500)), (reply.status, reply.body[:300])
    found = reply.json
    assert isinstance(found["error"], str) and isinstance(found["message"], str)
    for leak in LEAKS:
        assert leak not in reply.body
        assert not any(leak.decode() in value for value in reply.headers.values())


SQL = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM parquet_scan('http://169.254.169.254/latest')",
    "COPY s TO '/tmp/stolen.csv'",
    "ATTACH '/etc/passwd' AS x",
    "INSTALL httpfs",
    "LOAD '/tmp/evil.so'",
    "PRAGMA database_list",
    "SET enable_external_access = true",
    "SELECT getenv('HOME')",
    "SELECT current_setting('home_directory') FROM s",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM information_schema.tables",
    "SELECT v FROM s; DROP TABLE s",
    "INSERT INTO s VALUES (1)",
    "DELETE FROM s",
    "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
    "SELECT " + "+".join(["1"] * 6_000) + " FROM nothing",
    "SELECT 'unterminated",
    "SELECT \x00 FROM s",
    "SELECT v FROM s WHERE k LIKE '" + "%a" * 5_000,
    "CREATE STREAM x (ts TIMESTAMP) WITH (source='files', path='/etc/*', format='csv')",
    "CREATE TABLE x (a TEXT) WITH (path='/etc/passwd', format='csv')",
    "CREATE TABLE x (a TEXT) WITH (uri='x', driver='os', query='SELECT 1')",
    "CREATE TABLE x (a TEXT) WITH (uri='/etc/passwd', driver='sqlite3', query='SELECT 1')",
    "CREATE TABLE x (a TEXT) WITH (uri='postgresql://127.0.0.1/x', query='SELECT 1')",
    "ALTER TABLE x SET (uri = 'postgresql://127.0.0.1/y')",
    "REFRESH TABLE x",
    "DROP STREAM s CASCADE",
    "DRAIN FINAL",
    "DROP QUERY q",
    "CREATE OR REPLACE QUERY q AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 SECOND]",
    "ALTER QUERY q PAUSE",
    'DROP QUERY "Q"',
    "EXPLAIN DROP STREAM s",
    "SELECT 1; DROP /* */ STREAM s CASCADE",
]


@pytest.mark.parametrize("script", SQL, ids=lambda s: s[:40])
@pytest.mark.parametrize("role", ["read", "write"])
def test_query_text(attacked: Served, script: str, role: str) -> None:
    refused(attacked.raw(role)("POST", "/v1/statements", {"statements": script}), 400, 403, 409, 413)


@pytest.mark.parametrize("driver", ["os", "subprocess", "sqlite3", "tests.server.test_attacks"])
def test_no_token_makes_the_server_import_a_module(attacked: Served, driver: str) -> None:
    """Drivers are allowed where the pond is opened, and by nobody else."""
    admin = attacked.raw("admin")
    for statement in (
        f"CREATE TABLE x (a TEXT) WITH (uri='/etc/passwd', driver='{driver}', query='SELECT 1')",
        f"ALTER SYSTEM SET drivers = '{driver}'",
    ):
        refused(admin("POST", "/v1/statements", {"statements": statement}), 400, 409)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE QUERY x AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 SECOND]",
        "DROP QUERY IF EXISTS x",
        "ALTER QUERY x RESUME",
        "DRAIN",
        "CREATE STREAM x (ts TIMESTAMP)",
        "DROP TABLE IF EXISTS x",
    ],
)
def test_readers_change_nothing(attacked: Served, statement: str) -> None:
    refused(attacked.raw("read")("POST", "/v1/statements", {"statements": statement}), 403)
    scripts = f"SELECT 1; {statement}"
    reply = attacked.raw("read")("POST", "/v1/statements", {"statements": scripts})
    refused(reply, 403)
    assert "place" in reply.json and "executed" not in reply.json


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/v1/queries/q"),
        ("POST", "/v1/queries/q/pause"),
        ("POST", "/v1/queries/q/resume"),
        ("POST", "/v1/queries"),
        ("POST", "/v1/streams/s/rows"),
        ("POST", "/v1/drain"),
    ],
)
def test_roles_of_paths(attacked: Served, method: str, path: str) -> None:
    refused(attacked.raw("read")(method, path, {}), 403)
    if "q/" in path or method == "DELETE":
        refused(attacked.raw("write")(method, path), 403)  # somebody else's query


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "..",
        "%2e%2e",
        "q'; DROP STREAM s CASCADE; --",
        'q" OR 1=1',
        "\x00",
        "q\r\nX-Evil: 1",
        "q" * 5_000,
        "\u202e",
        "-1",
        "9" * 40,
        "#",
        "#-1",
        "q/answer",
        "\ud83d\ude00",
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "path", ["/v1/queries/{}", "/v1/queries/{}/answer", "/v1/queries/{}/subscription", "/v1/streams/{}"]
)
def test_names_in_paths(attacked: Served, path: str, name: str) -> None:
    refused(attacked.raw("read")("GET", path.format(quote(name.encode("utf-8", "surrogatepass"), safe=""))), 400, 404)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../../../etc/passwd",
        "/v1/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/v1//queries",
        "/v1/queries/",
        "/",
        "/v1/queries/%ff",
        "/v1/queries/%",
        "/v2/health",
        "/v1/health/x",
        "/docs",
        "/v1/streams/s/rows/../../..",
    ],
)
def test_paths(attacked: Served, path: str) -> None:
    refused(attacked.raw("read")("GET", path), 400, 404, 405)


@pytest.mark.parametrize(
    "query",
    [
        "limit=-1",
        "limit=0",
        "limit=1e9",
        "limit=99999999999999999999",
        "limit=1_0",
        "limit=%D9%A1",
        "limit=1&limit=2",
        "as_of=epoch:-1",
        "as_of=epoch:1;DROP",
        "as_of=yesterday",
        "as_of='%3BDROP%20STREAM%20s",
        "begin=NOW%20-%20(SELECT%201)",
        "begin=%00",
        "end=" + "a" * 5_000,
        "format=xml",
        "unknown=1",
        "cursor=",
        "cursor=AAAA",
        "cursor=" + "A" * 3_000,
        "as_of=epoch:999999",
    ],
)
def test_arguments(attacked: Served, query: str) -> None:
    refused(attacked.raw("read")("GET", f"/v1/queries/q/answer?{query}"), 400, 409, 413)


@pytest.mark.parametrize("query", ["begin=yesterday", "end=yesterday", "as_of=yesterday", "begin=NOW%20-"])
def test_what_is_no_instant_is_a_wrong_request(attacked: Served, query: str) -> None:
    refused(attacked.raw("read")("GET", f"/v1/queries/q/answer?{query}"), 400)


@pytest.mark.parametrize(
    "values",
    [
        ["", 0],
        ["x", -1],
        ["x", 2**70, 2, 1],
        ["x", True],
        ["x", 0, "2"],
        ["x", 0, 2, 1.5],
        {"a": 1},
        ["x", 0, 2, -1],
        ["x", 0, 2, 10**9],
        ["x", 10**9, 2, 0],
        ["x", 0, 3, 0, "NOW - (SELECT 1)", None],
        ["x", 0, 2, 0, 5, 5],
        ["x"] * 20,
        [[[]]],
    ],
    ids=repr,
)
def test_forged_cursors(attacked: Served, values: Any) -> None:
    forged = base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")
    refused(attacked.raw("read")("GET", f"/v1/queries/q/answer?cursor={forged}"), 400, 410)
    refused(attacked.raw("read")("GET", f"/v1/pages/{forged}"), 400, 410)


@pytest.mark.parametrize(
    "since", ["1:2", "a:b:c", "-1:0:0", "2:-1:0", "999:1:0", "9" * 100 + ":1:1", "2:1:0\x7f", "\u0661:1:1"]
)
def test_forged_subscriptions(attacked: Served, since: str) -> None:
    refused(attacked.raw("read")("GET", f"/v1/queries/q/subscription?timeout=0&since={quote(since)}"), 400, 409)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Basic " + base64.b64encode(b"admin:admin").decode(),
        SECRETS["admin"],
        "Bearer " + SECRETS["admin"][:-1],
        "Bearer " + SECRETS["admin"].upper(),
        f"Bearer {SECRETS['admin']} x",
        "Bearer sha256:" + "0" * 64,
        "Bearer \xff\xfe",
        "Bearer " + "A" * 30_000,
        "Bearer " + SECRETS["admin"] + "\t\x00".strip("\x00") + "x",
    ],
    ids=range(13),
)
@pytest.mark.parametrize("path", ["/v1/streams", "/v1/nothing", "/v1/metrics", "/v1/queries/q/subscription"])
def test_tokens(attacked: Served, value: str, path: str) -> None:
    reply = Raw(attacked.url)("GET", path, None, {"Authorization": value})
    refused(reply, 401)
    assert reply.json["message"].startswith("this server needs a token")


def test_a_token_elsewhere_is_none(attacked: Served) -> None:
    secret = SECRETS["admin"]
    for path in (f"/v1/streams?token={secret}", f"/v1/streams?access_token={secret}"):
        refused(Raw(attacked.url)("GET", path), 401)
    refused(Raw(attacked.url)("GET", "/v1/streams", None, {"Cookie": f"token={secret}"}), 401)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"7",
        b'{"statements": 7}',
        b'{"statements": null}',
        b'{"statements": ["SELECT 1"]}',
        b'{"statements": "SELECT 1", "more": 1}',
        b'{"statements": "SELECT 1", "limit": true}',
        b'{"statements": "SELECT 1", "limit": -5}',
        b'{"statements": "SELECT 1", "limit": 1e400}',
        b'{"statements": NaN}',
        b'{"statements": "\xff"}',
        b'{"statements": "\\u0000"}',
        b"[" * 10_000,
        b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
        b'{"statements": ' + b"9" * 10_000 + b"}",
        b'{"statements": "' + b"x" * 30_000 + b'"}',
    ],
    ids=range(19),
)
@pytest.mark.parametrize("path", ["/v1/statements", "/v1/queries", "/v1/drain"])
def test_json_bodies(attacked: Served, path: str, body: bytes) -> None:
    if path == "/v1/drain" and not body:
        pytest.skip("an empty body is allowed there")
    refused(attacked.raw("write")("POST", path, body, JSON), 400, 413)


@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("application/json", b'[{"v": [1, 2]}]'),
        ("application/json", b'[{"nothing": 1}]'),
        ("application/json", b'[{"v": 1, "V": 2}]'),
        ("application/json", b'[{"v": 1e400}]'),
        ("application/json", b"[1, 2]"),
        ("application/json", b'"rows"'),
        ("application/json", b'{"rows": {"v": 1}}'),
        ("application/json", b'[{"": 1}]'),
        ("application/json", b'[{"v": ' + b"9" * 5_000 + b"}]"),
        ("application/json", b'[{"k": ' + b"[" * 50_000 + b"}]"),
        ("application/json", b"[" + b'{"v":1},' * 6_000 + b'{"v":1}]'),
        ("application/x-ndjson", b'{"v": 1}\n{"v": }\n'),
        ("application/x-ndjson", b'{"v": 1},{"v": 2}]}'),
        ("application/x-ndjson", b'{"v": 1}\n[]\n'),
        ("text/csv", b"\xff\xfe\x00"),
        ("text/csv", b"v\n1,2\n"),
        ("text/csv", b"v,v\n1,2\n"),
        ("text/csv", b"nothing\n1\n"),
        ("text/csv", b"v\n=cmd|' /C calc'!A0\n"),
        ("application/xml", b"<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><x>&e;</x>"),
        ("text/plain", b"v"),
        ("", b"[]"),
        ("multipart/form-data; boundary=x", b"--x--"),
        (wire.ARROW, b""),
        (wire.ARROW, b"ARROW1\0\0"),
        (wire.ARROW, b"\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\0" * 64),
        (wire.ARROW, bytes(range(256)) * 10),
    ],
    ids=range(27),
)
def test_ingest_bodies(attacked: Served, media: str, body: bytes) -> None:
    refused(attacked.raw("write")("POST", "/v1/streams/s/rows", body, {"Content-Type": media}), 400, 413, 415)


def _ipc(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _claims_rows(count: int) -> bytes:
    """A batch of NULLs without a buffer that claims any number of rows."""
    data = _ipc(pa.table({"v": pa.nulls(7)}))
    assert data.count(struct.pack("<q", 7)) >= 1
    return data.replace(struct.pack("<q", 7), struct.pack("<q", count))


def _bad_offsets() -> bytes:
    offsets = pa.py_buffer(struct.pack("<iii", 0, 2**30, 5))
    array = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"hello")])
    return _ipc(pa.table({"k": array}))


@pytest.mark.parametrize(
    "body",
    [
        _ipc(pa.table({"v": [0] * 4_000}), compression="zstd"),
        _ipc(pa.table({"v": [0] * 4_000}), compression="lz4"),
        _claims_rows(2**40),
        _claims_rows(-1),
        _bad_offsets(),
        _ipc(pa.table({"k": pa.array([b"\xff\xfe"]).view(pa.string())})),
        _ipc(pa.table({"v": list(range(100))}))[:-60],
        _ipc(pa.table({"v": [1]})).replace(b"\xff\xff\xff\xff", b"\xfe\xff\xff\xff"),
        _ipc(pa.table({"nothing": [1]})),
        _ipc(pa.table([[1], [2]], names=["v", "V"])),
        _ipc(pa.table({"v": [[1]]})),
        _ipc(pa.table({"v": [2**62] * 5_001})),
    ],
    ids=range(12),
)
def test_arrow_bodies(attacked: Served, body: bytes) -> None:
    refused(attacked.raw("write")("POST", "/v1/streams/s/rows", body, {"Content-Type": wire.ARROW}), 400, 413)


@pytest.mark.parametrize("at", range(0, 400, 16))
def test_arrow_with_a_wrong_byte_never_breaks_the_server(attacked: Served, at: int) -> None:
    body = bytearray(_ipc(pa.table({"k": ["a", "bc", None], "nothing": [1, 2, 3]})))
    for bit in (0x01, 0x80, 0xFF):
        broken = bytearray(body)
        broken[at % len(body)] ^= bit
        refused(
            attacked.raw("write")("POST", "/v1/streams/s/rows", bytes(broken), {"Content-Type": wire.ARROW}), 400, 413
        )


@pytest.mark.parametrize(
    "headers",
    [
        {"Idempotency-Key": ""},
        {"Idempotency-Key": "k" * 300},
        {"Idempotency-Key": "\xe9"},
        {"Content-Encoding": "gzip"},
        {"Content-Encoding": "br, gzip"},
        {"Content-Length": "300000"},
    ],
    ids=range(6),
)
def test_ingest_headers(attacked: Served, headers: dict[str, str]) -> None:
    body = b"" if "Content-Length" in headers else b"[]"
    refused(attacked.raw("write")("POST", "/v1/streams/s/rows", body, {**JSON, **headers}), 400, 413, 415)


def test_large_bodies_are_cut_off(attacked: Served) -> None:
    raw = attacked.raw("write")
    reply = raw("POST", "/v1/streams/s/rows", b"[" + b" " * 200_000 + b"]", JSON)
    refused(reply, 413)
    assert reply.json["limit"] == "request_bytes"
    assert raw("POST", "/v1/statements", {"statements": " " * 30_000}).json["limit"] == "statement_bytes"


def test_large_chunked_bodies_are_cut_off(attacked: Served) -> None:
    head = f"POST /v1/streams/s/rows HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRETS['write']}\r\n"
    head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    piece = b"2000\r\n" + b" " * 0x2000 + b"\r\n"
    assert b" 413 " in _raw_socket(attacked, head.encode() + piece * 40)[:20]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /v1/streams HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 500_000 + b"\r\n\r\n",
        b"GET /v1/streams HTTP/1.1\r\n" + b"X: a\r\n" * 100_000,
        b"GET /" + b"a" * 500_000 + b" HTTP/1.1\r\n\r\n",
        b"GARBAGE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /v1/str\xffeams HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/drain HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/drain HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST /v1/drain HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET http://169.254.169.254/latest HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /v1/queries/q/subscription HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"TRACE /v1/health HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=range(13),
)
def test_broken_http(attacked: Served, request_bytes: bytes) -> None:
    answer = _raw_socket(attacked, request_bytes)
    assert not answer or answer.split(b" ")[1][:1] == b"4", answer[:200]


def _raw_socket(served: Served, data: bytes) -> bytes:
    parts = urlsplit(served.url)
    with socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=120) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(65_536)
        except OSError:
            return b""


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:7474"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost@evil.example"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/streams"), ("DELETE", "/v1/queries/q"), ("GET", "/v1/health")]
)
def test_web_pages_cannot_reach_a_server_without_tokens(
    served: Served, headers: dict[str, str], method: str, path: str
) -> None:
    reply = served.raw()(method, path, None, headers)
    refused(reply, 403)
    assert not any(name.startswith("access-control") for name in reply.headers)
    assert served.pond.query("q").name == "q"


def test_plain_forms_cannot_change_anything(served: Served) -> None:
    for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        reply = served.raw()(
            "POST", "/v1/statements", b'{"statements": "DROP STREAM s CASCADE"}', {"Content-Type": media}
        )
        refused(reply, 415)


def test_headers_cannot_be_split(attacked: Served) -> None:
    reply = attacked.raw("read")("GET", "/v1/queries/q/answer?cursor=a%0d%0aX-Evil:%201")
    refused(reply, 400)
    assert "x-evil" not in reply.headers


def test_internal_errors_tell_nothing(attacked: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("the secret is in /srv/secret/key.py")

    monkeypatch.setattr(attacked.pond, "status", broken)
    reply = attacked.raw("read")("GET", "/v1/status")
    assert reply.status == 500 and b"secret" not in reply.body and reply.json["error"] == "internal"
    assert reply.json["request"] == reply.headers["x-request-id"]


def test_a_key_is_not_taken_for_other_rows(attacked: Served) -> None:
    key = {**JSON, "Idempotency-Key": "used"}
    write = attacked.raw("write")
    first, other = rows(0, 3), rows(3, 6)
    for body, status in ((first, 200), (other, 409), (first, 200), (rows(0, 2), 409)):
        reply = write("POST", "/v1/streams/s/rows", json.dumps(body).encode(), key)
        assert reply.status == status and (status == 200 or "a key of its own" in reply.json["message"])


def test_keys_of_owners_are_their_own(guarded: Served) -> None:
    body, key = rows(0, 3), {"Idempotency-Key": "k"}
    for role in ("write", "other", "write"):
        reply = guarded.raw(role)("POST", "/v1/streams/s/rows", json.dumps(body).encode(), {**JSON, **key})
        assert reply.status == 200
    guarded.pond.drain()
    assert guarded.pond.sql("SELECT count(*) FROM s").rows() == [(6,)]
