"""Checksums that the files of a pond carry within themselves, where a reader of their format does not mind.

A record (a JSON file, or a line of a log) has one as its last member. Arrow and Parquet files have one in front of
their footers, where no reader looks; the pages of Parquet have checksums of their own. Records and files without are of
earlier versions, and are taken as they are.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

import numpy as np
import pyarrow as pa

#: What the checksum of a record looks like, and how long it is.
_MEMBER: Final = b'"crc":"%08x"}'
_LENGTH: Final = len(_MEMBER % 0)

#: How an Arrow file ends, and a Parquet file: the length of its footer, and a word.
_END: Final = struct.Struct("<i6s")
_WORD: Final = b"ARROW1"
PARQUET_END: Final = struct.Struct("<I4s")

#: In front of the footer: our word, the words of the tables together (exclusive or, sum), and the checksum of the rest.
_SEAL: Final = struct.Struct("<8sQQQ")
_OURS: Final = b"millpond"

#: The same in front of the footer of a Parquet file: our word, and the checksum of all behind it.
FOOTER_SEAL: Final = struct.Struct("<8sQ")


class NotAsWritten(ValueError):
    """Content that is not what was written."""


def sealed(record: bytes) -> bytes:
    """A JSON object, as `json.dumps` writes it, with its checksum as its last member.

    >>> sealed(b'{"a":1}')
    b'{"a":1,"crc":"ed6d29b4"}'
    """
    body = record[:-1] + b"," if len(record) > 2 else record[:-1]
    return body + _MEMBER % zlib.crc32(body)


def unsealed(record: bytes) -> bytes:
    """The object that was sealed; one that never was comes back as it is.

    Raises: NotAsWritten when its checksum is another's.

    >>> unsealed(b'{"a":1,"crc":"ed6d29b4"}')
    b'{"a":1}'
    """
    body, member = record[:-_LENGTH], record[-_LENGTH:]
    if not member.startswith(b'"crc":"'):
        return record
    if member != _MEMBER % zlib.crc32(body):
        raise NotAsWritten("its checksum is another's")
    return body.removesuffix(b",") + b"}"


def whole_lines(data: bytes) -> bytes:
    """The lines of a log, without the part of one that a crash has left at its end.

    Raises: NotAsWritten: at the end is a whole record, and something else than the end of its line behind it.

    >>> whole_lines(b'{"a":1}' + b"\\n" + b'{"b"')
    b'{"a":1}\\n'
    """
    end = data.rfind(b"\n") + 1
    record, last = data[end:-1], data[end:][-1:]
    if last not in (b"", b"\0") and _has_checksum(record):  # bytes that were never written read as zeros
        raise NotAsWritten("its last line does not end as a line does")
    return data[:end]


def _has_checksum(record: bytes) -> bool:
    try:
        return len(unsealed(record)) < len(record)
    except NotAsWritten:
        return False


def is_whole(record: bytes) -> bool:
    """Whether a record was written to its end, be it damaged since or not.

    >>> is_whole(b'{"b":1,"crc":"ed6d29b4"}'), is_whole(b'{"a":1,"cr')
    (True, False)
    """
    return record.endswith(_MEMBER[-2:]) or _MEMBER[:7] in record[-_LENGTH:]


def sealed_arrow(data: pa.Buffer) -> tuple[pa.Buffer, bytes, pa.Buffer]:
    """An Arrow file in three parts, to be written one behind the other; the one in the middle is the checksum."""
    footer = _footer(data)
    tables, rest = data[:footer], data[footer:]
    return tables, _SEAL.pack(_OURS, *_together(tables), zlib.crc32(rest)), rest


def check_arrow(data: pa.Buffer) -> None:
    """See that an Arrow file is as `sealed_arrow` made it; costs what reading it from memory costs.

    Raises: NotAsWritten.
    """
    at = _footer(data) - _SEAL.size
    if at < 0:
        return
    word, *told, rest = _SEAL.unpack(data[at : at + _SEAL.size])
    if word != _OURS:
        return
    if told != list(_together(data[:at])) or rest != zlib.crc32(data[at + _SEAL.size :]):
        raise NotAsWritten("its checksum is another's")


def sealed_footer(footer: bytes) -> bytes:
    """The footer of a Parquet file, to its end, with its checksum in front.

    >>> sealed_footer(b"...PAR1")[:8]
    b'millpond'
    """
    return FOOTER_SEAL.pack(_OURS, zlib.crc32(footer)) + footer


def check_footer(footer: bytes) -> None:
    """See that the footer of a Parquet file is as `sealed_footer` made it: readers of a wrong one may end the process.

    footer: with as many bytes in front of it as a checksum has.

    Raises: NotAsWritten.
    """
    word, told = FOOTER_SEAL.unpack_from(footer)
    if word == _OURS and told != zlib.crc32(footer[FOOTER_SEAL.size :]):
        raise NotAsWritten("the checksum of its footer is another's")


def _footer(data: pa.Buffer) -> int:
    """Where the footer of an Arrow file begins."""
    if data.size >= _END.size:
        length, word = _END.unpack(data[data.size - _END.size :])
        if word == _WORD and 0 < length <= data.size - _END.size:
            return int(data.size - _END.size - length)
    raise NotAsWritten("it does not end as an Arrow file does")


def _together(data: pa.Buffer) -> tuple[int, int]:
    """Two words that every bit of a buffer, which is made of words, has its part in."""
    words = np.frombuffer(data, np.uint64)
    return int(np.bitwise_xor.reduce(words)), int(np.add.reduce(words))
