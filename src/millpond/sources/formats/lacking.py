"""Declared columns that a file does not have: a wrong name would else be NULL in every row, and nobody would see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from millpond.support.spelling import nearest
from millpond.types import StreamDefinition

_SHOWN: Final = 12


@dataclass(frozen=True)
class Lacking:
    """A column that a file lacks.

    near: a column of the file that may be meant. there: those that it has. file: its path, where it must be said.
    """

    column: str
    stream: str
    near: str
    there: tuple[str, ...]
    file: str = ""

    def __str__(self) -> str:
        more = "" if len(self.there) <= _SHOWN else f" and {len(self.there) - _SHOWN} more"
        meant = f"'{self.near}', which '{self.stream}' does not" if self.near else ", ".join(self.there[:_SHOWN]) + more
        which = f"file {self.file}" if self.file else "file"
        return f"the {which} has no column '{self.column}' (it has {meant or 'none'})"

    @property
    def remedy(self) -> str:
        """What would work."""
        other = f"the name '{self.near}'" if self.near else "a name that the file has"
        return f"{other}, or missing='null' for NULL where a file has no such column"


def lacking(names: Sequence[str] | None, definition: StreamDefinition) -> Lacking | None:
    """The first declared column that is none of the names, in any letters; None: all are there, or may be missing.

    Arguments:
        names: what the columns of a file are called; None: it does not say.

    >>> from millpond.types import Column, StreamOptions
    >>> sale = StreamDefinition("sale", (Column("price", "DOUBLE"),), StreamOptions(missing="error"))
    >>> print(lacking(["ts", "prise"], sale))
    the file has no column 'price' (it has 'prise', which 'sale' does not)
    """
    options = definition.options
    if names is None or options.missing == "null":
        return None
    there = {n.lower() for n in names} | {n.lower() for n in options.added}
    for column in definition.columns:
        if column.name.lower() not in there and not definition.makes(column.name):
            known = {c.name.lower() for c in definition.columns}
            near = nearest(column.name, [n for n in names if n.lower() not in known])
            return Lacking(column.name, definition.name, near, tuple(names))
    return None


__all__ = ["Lacking", "lacking"]
