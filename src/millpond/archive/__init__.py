"""The archive as an access method (OSCAR): a scan says how much of the past it reads, and rows lie accordingly.

A reduction is always the fraction of rows that is dropped: 0 keeps every row, 0.75 a quarter of them. `design` is pure;
`archive_files` and `copy_files` lay files out, `reading` reads them, `upkeep` maintains them.
"""

from millpond.archive.design.choosing import Choice, Copy, choose
from millpond.archive.design.sampling import fractions, keep, kept_fraction, seed_of, weight
from millpond.types.archive_design import Design, Keep, Summary, parse_design

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
    "seed_of",
    "weight",
]
