"""How COPY writes a file: its format, and what the statement says of it, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from millpond.support.file_names import file_ending, packing
from millpond.support.sql import text_literal

#: What an option of COPY takes.
Kind = Literal["text", "character", "flag", "count", "columns"]
Value = str | bool | int | tuple[str, ...]

_TEXTS = ("csv", "json")
_PARQUET_PACKINGS = ("uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4", "lz4_raw")


@dataclass(frozen=True)
class CopyOption:
    """An option of COPY … TO. formats: that it is for. choices: the words that it takes, by format; none: any."""

    formats: tuple[str, ...]
    kind: Kind
    choices: Mapping[str, tuple[str, ...]] | None = None


#: The options beside FORMAT, by name.
COPY_OPTIONS: Mapping[str, CopyOption] = {
    "COMPRESSION": CopyOption(
        ("parquet", *_TEXTS),
        "text",
        {"parquet": _PARQUET_PACKINGS, **dict.fromkeys(_TEXTS, ("none", "auto", "gzip", "zstd"))},
    ),
    "DELIMITER": CopyOption(("csv",), "character"),
    "HEADER": CopyOption(("csv",), "flag"),
    "QUOTE": CopyOption(("csv",), "character"),
    "ESCAPE": CopyOption(("csv",), "character"),
    "NULLSTR": CopyOption(("csv",), "text"),
    "FORCE_QUOTE": CopyOption(("csv",), "columns"),
    "DATEFORMAT": CopyOption(_TEXTS, "text"),
    "TIMESTAMPFORMAT": CopyOption(_TEXTS, "text"),
    "ARRAY": CopyOption(("json",), "flag"),
    "COMPRESSION_LEVEL": CopyOption(("parquet",), "count"),
    "ROW_GROUP_SIZE": CopyOption(("parquet",), "count"),
}
#: Other names of options, which DuckDB has, too.
OTHER_NAMES = {"DELIM": "DELIMITER", "SEP": "DELIMITER", "NULL": "NULLSTR"}

FORMATS = ("parquet", "csv", "json")
#: Endings of names that are a format under another name.
_ENDINGS = {"tsv": "csv", "ndjson": "json", "jsonl": "json"}
#: What is written unless the statement says otherwise, by the end of the name; DuckDB tells timestamps of JSON by one
#: format for all.
_DEFAULTS: Mapping[str, Mapping[str, Value]] = {
    "tsv": {"DELIMITER": "\t"},
    **{ending: {"TIMESTAMPFORMAT": "%Y-%m-%d %H:%M:%S.%f"} for ending in ("json", "ndjson", "jsonl")},
}


def format_named(path: str) -> str:
    """The format that a file's name says; '' for none.

    >>> format_named("a.tsv.gz"), format_named("a.txt")
    ('csv', '')
    """
    ending = file_ending(path)
    return _ENDINGS.get(ending, ending)


@dataclass(frozen=True)
class FileForm:
    """How a file is written. options: of `COPY_OPTIONS`, as the statement gives them."""

    path: str
    format: str
    options: Mapping[str, Value]

    @property
    def sql(self) -> str:
        """The options of DuckDB's COPY.

        >>> FileForm("a.csv.gz", "csv", {"HEADER": False}).sql
        "FORMAT csv, COMPRESSION 'gzip', HEADER false"
        """
        packed: dict[str, Value] = {} if self.format == "parquet" else {"COMPRESSION": packing(self.path)}
        default = _DEFAULTS.get(file_ending(self.path) or self.format, {})
        options = {**packed, **default, **self.options}
        if options.get("COMPRESSION") == "auto":
            options["COMPRESSION"] = packing(self.path)
        return ", ".join([f"FORMAT {self.format}", *(f"{name} {_sql(value)}" for name, value in options.items())])


def _sql(value: Value) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(text_literal(each) for each in value)})" if value else "*"
    return text_literal(value) if isinstance(value, str) else str(value).lower()


__all__ = ["COPY_OPTIONS", "FORMATS", "OTHER_NAMES", "CopyOption", "FileForm", "format_named"]
