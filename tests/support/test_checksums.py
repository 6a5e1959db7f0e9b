"""Checksums of records and of Arrow files: one changed byte is noticed, wherever it is, or changes nothing."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from millpond.support.checksums import NotAsWritten, check_arrow, is_whole, sealed, unsealed, whole_lines
from millpond.tables.stored_files import arrow_parts

TABLES = {
    "plain": pa.table({"a": [1, 2, 3], "b": ["x", None, "yy"]}),
    "empty": pa.table({"a": pa.array([], pa.int64())}),
    "no columns": pa.table({}),
    "dictionaries": pa.table({"a": pa.array(["x", "y", "x"]).dictionary_encode()}),
    "nested": pa.table({"a": [[1, 2], None, []], "b": [{"c": 1.5}, {"c": None}, None]}),
    "batches": pa.concat_tables([pa.table({"a": [n]}) for n in range(3)]),
}


def written(name: str) -> bytes:
    return b"".join(bytes(part) for part in arrow_parts(TABLES[name]))


@pytest.mark.parametrize("value", [{}, {"a": 1}, {"crc": "x"}, {"a": {"crc": "00000000"}}, {"a": '"crc":"12345678"}'}])
def test_a_record_comes_back(value: dict[str, object]) -> None:
    record = json.dumps(value, separators=(",", ":")).encode()
    found = sealed(record)
    assert unsealed(found) == unsealed(record) == record
    assert json.loads(found) == value | {"crc": json.loads(found)["crc"]}
    assert is_whole(found)


def test_the_end_of_a_log_is_torn_or_damaged() -> None:
    line = sealed(b'{"ordinal":17,"rows":4}')
    for cut in range(len(line) + 1):
        assert whole_lines(line + b"\n" + line[:cut]) == line + b"\n"
        assert whole_lines(line + b"\n" + line[:cut] + b"\0" * 9) == line + b"\n"
    for bit in range(8):
        with pytest.raises(NotAsWritten):
            whole_lines(line + b"\n" + line + bytes([ord("\n") ^ 1 << bit]))


def test_a_changed_byte_of_a_record_is_noticed() -> None:
    record = b'{"ordinal":17,"rows":4}'
    found = sealed(record)
    for at in range(len(found)):
        for bit in range(8):
            changed = found[:at] + bytes([found[at] ^ 1 << bit]) + found[at + 1 :]
            try:
                value = json.loads(unsealed(changed))
            except ValueError:
                continue
            # The member is not called as it should be: the rest is as it was written.
            assert value.items() >= json.loads(record).items(), changed


@pytest.mark.parametrize("name", TABLES)
def test_every_reader_of_arrow_reads_a_checked_file(name: str) -> None:
    data = written(name)
    check_arrow(pa.py_buffer(data))
    assert pa.ipc.open_file(data).read_all().equals(TABLES[name])
    assert pa.ipc.open_stream(data[8:]).read_all().equals(TABLES[name])


@pytest.mark.parametrize("name", TABLES)
def test_a_changed_byte_of_an_arrow_file_is_noticed(name: str) -> None:
    data = written(name)
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
        try:
            check_arrow(pa.py_buffer(changed))
            found = pa.ipc.open_file(changed).read_all()
        except (ValueError, OSError):
            continue
        assert found.equals(TABLES[name]), at


@pytest.mark.parametrize("name", TABLES)
def test_cut_and_longer_files_are_noticed(name: str) -> None:
    data = written(name)
    for other in (b"", data[: len(data) // 2], data[:-1], data + b"x", data[8:], b"garbage!" * 8):
        with pytest.raises(NotAsWritten):
            check_arrow(pa.py_buffer(other))


def test_a_file_of_an_earlier_version_is_taken_as_it_is() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, TABLES["plain"].schema) as writer:
        writer.write_table(TABLES["plain"])
    check_arrow(sink.getvalue())
