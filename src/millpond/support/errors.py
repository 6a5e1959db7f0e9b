"""Errors that users meet. Each says where, what is wrong and what would work."""

from __future__ import annotations

import re

#: What stands where a URI, or a list of settings for a connection, has a password.
_SECRETS = (
    re.compile(r"(?<=://)([^\s/@:']*:)([^\s/']+)(?=@)"),
    re.compile(r"(?i)((?:password|passwd|pwd)\s*=\s*)('+[^']*'*|\"[^\"]*\"?|[^\s'\"&;]+)"),
)


def without_secrets(text: str) -> str:
    """A text in which passwords are stars, as many as they have characters, so that places stay where they are.

    >>> without_secrets("uri='postgresql://me:hidden@db/x' password=a")
    "uri='postgresql://me:******@db/x' password=*"
    """
    for pattern in _SECRETS:
        text = pattern.sub(lambda m: m[1] + "*" * len(m[2]), text)
    return text


class MillpondError(Exception):
    """Base of every error that Millpond raises on purpose; its text is for the user."""


class StatementError(MillpondError):
    """A statement that cannot be understood or bound; nothing was changed.

    Arguments:
        message: what is wrong, one sentence.
        text: the whole script or statement.
        start, end: the offending characters, as offsets into `text` (end exclusive).
        expected: what would have been right there.
        nearest: the known name that looks most like the unknown one.

    The message shows line and column (both from 1), the excerpt with a caret, what was expected and the nearest name:

        >>> print(StatementError("no column 'mhp'", "SELECT mhp FROM r", 7, 10, nearest="mph"))
        line 1, column 8: no column 'mhp'
          SELECT mhp FROM r
                 ^^^
        did you mean 'mph'?
    """

    def __init__(
        self,
        message: str,
        text: str = "",
        start: int = 0,
        end: int | None = None,
        expected: str = "",
        nearest: str = "",
    ) -> None:
        message, text = without_secrets(message), without_secrets(text)
        self.message, self.text, self.expected, self.nearest = message, text, expected, nearest
        self.start = max(0, min(start, len(text)))
        self.end = min(max(self.start + 1, end if end is not None else self.start + 1), max(len(text), self.start + 1))
        if self.nearest.lower() == text[self.start : self.end].lower():  # the name is right, and its value is not
            self.nearest = ""
        before = text[: self.start]
        self.line = before.count("\n") + 1
        self.column = self.start - (before.rfind("\n") + 1) + 1
        super().__init__(str(self))

    def __str__(self) -> str:
        parts = [f"line {self.line}, column {self.column}: {self.message}" if self.text else self.message]
        if self.text:
            excerpt = self.text.split("\n")[self.line - 1]
            width = max(1, min(self.end - self.start, len(excerpt) - self.column + 1))
            offset = max(0, self.column - 60)
            shown = excerpt[offset : offset + 120].replace("\t", " ")
            parts += [f"  {shown}", "  " + " " * (self.column - 1 - offset) + "^" * min(width, 120)]
        if self.expected:
            parts.append(f"expected {self.expected}")
        if self.nearest:
            parts.append(f"did you mean '{self.nearest}'?")
        return "\n".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.message, self.text, self.start, self.end, self.expected, self.nearest))


class PondError(MillpondError):
    """The pond cannot do this now: it is locked by another process, damaged, or of another version."""


class LostFile(PondError, FileNotFoundError):
    """A file of the pond is not there any more; whoever expects that it may be gone catches FileNotFoundError."""


class SourceError(MillpondError):
    """A source cannot be read: the path does not exist, a format is not known, data does not fit the stream."""


class KeyReused(SourceError):
    """An idempotency key came with other rows than those that were taken with it; nothing was taken."""


class QueryError(MillpondError):
    """A query cannot be answered: it is quarantined, its windows are gone, a limit is exceeded."""


class Refusal(QueryError):
    """A statement that says something that its kind of query cannot have; who knows its text makes a place of it.

    Arguments:
        message: what is wrong, one sentence.
        option: the option that is at fault.
        words: else the words of the text that are, the first that stands there.
        expected: what would be right. nearest: the known name most like one that is not known.

        >>> Refusal("'every' is for RSTREAM", option="every").option
        'every'
    """

    def __init__(
        self, message: str, option: str = "", words: tuple[str, ...] = (), expected: str = "", nearest: str = ""
    ) -> None:
        super().__init__(message)
        self.option, self.words, self.expected, self.nearest = option, words, expected, nearest

    def __str__(self) -> str:
        hint = f"did you mean '{self.nearest}'?" if self.nearest else ""
        return "; ".join(part for part in (str(self.args[0]), self.expected, hint) if part)


class EngineError(MillpondError):
    """An epoch or a background job failed; the text names it and its cause."""
