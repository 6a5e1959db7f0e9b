"""Names of files, and the formats that they end with."""

from __future__ import annotations

FILE_ENDINGS = (".parquet", ".csv", ".tsv", ".json", ".ndjson", ".jsonl")

_PACKED = (".gz", ".zst")


def file_ending(name: str) -> str:
    """The format that the end of a name says; '' for none that is known.

    >>> file_ending("data/*.CSV.gz"), file_ending("reading"), file_ending("x.csv.exe")
    ('csv', '', '')
    """
    plain = name.lower()
    for packed in _PACKED:
        plain = plain.removesuffix(packed)
    return next((ending[1:] for ending in FILE_ENDINGS if plain.endswith(ending)), "")


def is_file_name(name: str) -> bool:
    """Whether a name in FROM is that of files."""
    return file_ending(name) != ""
