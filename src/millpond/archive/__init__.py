"""The archive as an access method (OSCAR): a scan says how much of the past it reads, and rows lie accordingly.

Pure functions and state machines over row ids, segments and reductions; files, tasks and commits are the engine's. A
reduction is always the fraction of rows that is dropped: 0 keeps every row, 0.75 a quarter of them.

`sampling` says which rows a reduction keeps, `designs` reads the option `archive`, `layout` orders the rows of a file,
`choosing` matches what is wanted with what is stored, `lazy` decides what the vacuumer does for the design 'modify'.
"""

from millpond.archive.choosing import Choice, Copy, choose
from millpond.archive.designs import Design, Keep, Summary, parse_design
from millpond.archive.sampling import fractions, keep, kept_fraction, row_hash_sql, seed_of, weight

__all__ = [
    "Choice",
    "Copy",
    "Design",
    "Keep",
    "Summary",
    "choose",
    "fractions",
    "keep",
    "kept_fraction",
    "parse_design",
    "row_hash_sql",
    "seed_of",
    "weight",
]
