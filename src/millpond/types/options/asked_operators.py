"""The option `operators` of a stream as a value: what is computed of its rows beside queries.

    operators = 'last_row(sensor, 2 hours) + other(mph)'

Which operators there are, and what their arguments mean, `millpond.operators.registry` knows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_ASKED = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?\s*")


@dataclass(frozen=True)
class AskedOperator:
    """An operator that a stream asks for: what its kind is called, and arguments as they are written."""

    word: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.word}({', '.join(self.arguments)})"

    def owner(self, stream: int) -> str:
        """The name that its state is stored under, for a stream by its id."""
        return f"{self} {stream}"


@lru_cache(maxsize=256)
def parse_operators(text: str) -> tuple[AskedOperator, ...]:
    """The operators that a text names, each once.

    Raises: ValueError when it does not have that form.

    >>> [str(each) for each in parse_operators("Last_Row( sensor,2 hours ) + other")]
    ['last_row(sensor, 2 hours)', 'other()']
    """
    found = []
    for part in text.split("+") if text.strip() else ():
        asked = _ASKED.fullmatch(part)
        if asked is None:
            raise ValueError(f"'{part.strip()}' is no operator")
        arguments = tuple(a.strip() for a in asked[2].split(",")) if asked[2] and asked[2].strip() else ()
        found.append(AskedOperator(asked[1].lower(), arguments))
    return tuple(dict.fromkeys(found))
