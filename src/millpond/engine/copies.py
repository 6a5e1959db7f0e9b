"""Reduced copies of a stream's archive: where they lie, and how their files are named.

A copy is a Delta table of its own, with the columns of the archive. A file `e…-00000.parquet` of the archive is a
*section*; a copy with the fraction .5 of its rows has them in `e…-00000~0.5.parquet`. Names tie the versions of a
section together, so that no commit has to span tables: a section that a copy lacks is read from a finer one, and a file
of a copy whose section the archive does not name any more counts only when it is marked as the sole one left.
"""

from __future__ import annotations

import os

from millpond.engine.segments import archive_folder
from millpond.tables import Segment
from millpond.types import StreamDefinition


def copies_folder(pond: str, stream: StreamDefinition) -> str:
    """The folder of a stream's copies."""
    return os.path.join(pond, "copies", f"{stream.name.lower()}-{stream.id}")


def copy_folder(pond: str, stream: StreamDefinition, copy: str) -> str:
    """The folder of a copy's table; of the archive itself for ''."""
    return os.path.join(copies_folder(pond, stream), copy) if copy else archive_folder(pond, stream)


def file_path(pond: str, stream: StreamDefinition, copy: str, segment: Segment) -> str:
    """The path of a file of a copy, or ('') of the archive."""
    return os.path.join(copy_folder(pond, stream, copy), segment.path)


def section_of(path: str) -> str:
    """The section that a file holds rows of.

    >>> section_of("e000000000007-00000.parquet"), section_of("e000000000007-00000~0.25.parquet")
    ('e000000000007-00000', 'e000000000007-00000')
    """
    return path.removesuffix(".parquet").split("~", 1)[0]


def copy_file(section: str, kept: float) -> str:
    """The name of the file of a copy that holds the fraction `kept` of a section.

    >>> copy_file("e000000000007-00000", 0.25)
    'e000000000007-00000~0.25.parquet'
    """
    return f"{section}~{kept!r}.parquet"


def level_name(kept: float) -> str:
    """The name of the copy that an eager level keeps.

    >>> level_name(0.75)
    'sample-0.25'
    """
    return f"sample-{round(1 - kept, 12):g}"
