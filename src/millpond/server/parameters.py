"""Parameters of operations: read and checked, by the bounds that the document states, with a message that says them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from millpond.server.access.limits import Limits
from millpond.server.failures import bad_request, over_limit
from millpond.server.schemas import Schema

#: Text without control characters.
PRINTABLE = r"^[^\x00-\x1f\x7f]*$"


@dataclass(frozen=True)
class Parameter:
    """A parameter of an operation.

    least, most: bounds of an integer or number. limit: a limit of the server that bounds it, too.
    shortest, longest, pattern: what a text may be, in characters; holds: what `pattern` allows, for people.
    """

    name: str
    kind: Literal["string", "integer", "number", "boolean"] = "string"
    summary: str = ""
    place: Literal["query", "path", "header"] = "query"
    least: float | None = None
    most: float | None = None
    limit: str = ""
    choices: tuple[str, ...] = ()
    example: str | None = None
    shortest: int = 0
    longest: int = 4_000
    pattern: str = PRINTABLE
    holds: str = "printable characters"

    def schema(self, limits: Limits) -> Schema:
        """What it may be, as JSON Schema."""
        found: Schema = {"type": self.kind}
        if self.choices:
            return found | {"enum": list(self.choices)}
        if self.kind == "string":
            shortest = max(self.shortest, self.place == "path")  # the path would be another one
            found |= {"minLength": shortest} if shortest else {}
            return found | {"maxLength": self.longest, "pattern": self.pattern}
        if self.least is not None:
            found["minimum"] = self.least
        if self.most is not None:
            found["maximum"] = self.most
        return found | ({"maximum": getattr(limits, self.limit), "x-limit": self.limit} if self.limit else {})

    def read(self, text: str, limits: Limits) -> Any:
        """The value of it. Raises: Failure 400, or 413 beyond the limit of the server."""
        if self.kind == "string":
            return self._text(text)
        if self.kind == "boolean":
            if text not in ("true", "false"):
                raise bad_request(f"'{self.name}' is true or false")
            return text == "true"
        return self._number(text, limits)

    def _text(self, text: str) -> str:
        if self.choices:
            if text not in self.choices:
                raise bad_request(f"'{self.name}' is one of {', '.join(self.choices)}")
        elif not self.shortest <= len(text) <= self.longest or not re.search(self.pattern, text):
            least = f"{self.shortest} to " if self.shortest else "at most "
            raise bad_request(f"'{self.name}' has {least}{self.longest:,} {self.holds}")
        return text

    def _number(self, text: str, limits: Limits) -> float:
        try:
            if not text.isascii() or len(text) > 30 or "_" in text or text != text.strip():
                raise ValueError
            value = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            what = "a whole number" if self.kind == "integer" else "a number"
            raise bad_request(f"'{self.name}' is {what}") from None
        least, most = self.least, self.most
        if not ((least is None or value >= least) and (most is None or value <= most)):  # false for NaN, too
            raise bad_request(f"'{self.name}' is from {least:g} on" + (f" to {most:,}" if most is not None else ""))
        if self.limit and value > (bound := getattr(limits, self.limit)):
            raise over_limit(413, self.limit, f"'{self.name}' is at most {bound:,}")
        return value
