"""A SELECT as it stands in a script, before names mean anything."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from millpond.language.syntax.bounds_clause import BoundsClause
from millpond.language.syntax.source_text import Source


@dataclass(frozen=True)
class WrittenSelect:
    """A SELECT as it is written.

    tree: its syntax. text: the statement that it is a part of, which a query keeps. offset: where that starts in
    `script`, which errors show; None: they show `text`. bounds: its BEGIN … END clauses.
    """

    tree: exp.Query
    text: str
    offset: int = 0
    script: str | None = None
    bounds: tuple[BoundsClause, ...] = ()

    @property
    def source(self) -> Source:
        """What errors point into."""
        if self.script is not None:
            return Source(self.script, 0, self.offset, self.offset + 1, self.tree)
        return Source(self.text, self.offset, self.offset, self.offset + 1, self.tree)
