"""Names of files, and the formats that they end with."""

from __future__ import annotations

FILE_ENDINGS = (".parquet", ".csv", ".tsv", ".json", ".ndjson", ".jsonl")

_PACKED = {".gz": "gzip", ".zst": "zstd"}


def packing(name: str) -> str:
    """How the end of a name says that a file is compressed: 'gzip' or 'zstd'; 'none'.

    >>> packing("a.csv.GZ"), packing("a.csv")
    ('gzip', 'none')
    """
    return next((how for end, how in _PACKED.items() if name.lower().endswith(end)), "none")


def file_ending(name: str) -> str:
    """The format that the end of a name says; '' for none that is known. Parquet is not compressed once more.

    >>> file_ending("data/*.CSV.gz"), file_ending("reading"), file_ending("x.csv.exe"), file_ending("x.parquet.gz")
    ('csv', '', '', '')
    """
    plain = name.lower()
    for packed in _PACKED:
        plain = plain.removesuffix(packed)
    found = next((ending[1:] for ending in FILE_ENDINGS if plain.endswith(ending)), "")
    return "" if found == "parquet" and plain != name.lower() else found


def is_file_name(name: str) -> bool:
    """Whether a name in FROM is that of files."""
    return file_ending(name) != ""
