"""What a file looks like that is not what its stream expects, and what to write so that it is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

_MAGIC: Final = (
    (b"PAR1", "it is a Parquet file", "format='parquet', or a name that ends with .parquet"),
    (b"ARROW1", "it is an Arrow file", "format='arrow', or a name that ends with .arrow"),
    (b"\x1f\x8b", "it is compressed by gzip", "a name that ends with .gz"),
    (b"\x28\xb5\x2f\xfd", "it is compressed by zstd", "a name that ends with .zst"),
    (b"PK\x03\x04", "it is a ZIP archive (or a spreadsheet)", "the files that are in it"),
)
_DELIMITERS: Final = (",", ";", "\t", "|", ":")
_OBJECTS: Final = "what is read are objects, one a line or all in one array"
_CALLED: Final = {"\t": "tabs"}


def other_format(data: bytes, expected: str) -> str:
    """What bytes look like that are not as `expected` ('csv', 'ndjson', 'parquet'), and what works; '': nothing known.

    >>> other_format(b'{"a": 1}', "csv")
    "it looks like NDJSON (format='ndjson')"
    >>> other_format(b"PAR1...", "ndjson")
    "it is a Parquet file (format='parquet', or a name that ends with .parquet)"
    """
    for magic, what, works in _MAGIC:
        if data.startswith(magic) and not works.startswith(f"format='{expected}'"):
            return f"{what} ({works})"
    start = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"[") and expected == "ndjson":
        return _OBJECTS
    if expected == "ndjson" and (why := spread_object(data)):
        return why
    if start.startswith((b"{", b'[{"', b"[{")) and expected != "ndjson":
        return f"it looks like {'NDJSON' if start.startswith(b'{') else 'a JSON array'} (format='ndjson')"
    if start.startswith(b"<"):
        return "it looks like HTML or XML"
    first = start.split(b"\n", 1)[0].decode("utf-8", "replace")
    if expected != "csv" and "\0" not in first and any(d in first for d in _DELIMITERS[:4]) and "{" not in first:
        return "it looks like CSV (format='csv')"
    return ""


def spread_object(data: bytes) -> str:
    """Why a text that begins with a JSON object over several lines is not read, and what is; '': it does not.

    >>> spread_object(b'{"a":\\n 1}')
    'an object stands over several lines; what is read are objects, one a line or all in one array'
    """
    text = data.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    try:
        found, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return ""
    return f"an object stands over several lines; {_OBJECTS}" if isinstance(found, dict) and "\n" in text[:end] else ""


def other_delimiter(header: str, delimiter: str, known: Sequence[str]) -> str:
    """Which delimiter makes columns of a header, and what to write; '': none does.

    Args:
        header: the first line. delimiter: what was tried. known: the columns of the stream, in small letters.

    >>> other_delimiter("ts;v", ",", ["ts", "v"])
    "its fields are separated by ';' (delimiter=';')"
    """
    found = {
        each: sum(name.strip().strip('"').lower() in known for name in header.split(each))
        for each in _DELIMITERS
        if each != delimiter and each in header
    }
    best = max(found, key=lambda each: found[each], default="")
    if not best or not found[best]:
        return ""
    told = _CALLED.get(best, f"'{best}'")
    written = "\\t" if best == "\t" else best
    also = f" and by '{delimiter}'" if delimiter in header else ""
    return f"its fields are separated by {told}{also} (delimiter='{written}')"
