"""Completion at the prompt: commands, names of streams, tables, queries, columns and options, keywords, functions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from millpond.cli.names import Names
from millpond.cli.option_completion import options_at
from millpond.cli.typed import KEYWORDS, in_quiet, quoted, statement_at, unfinished, words_of
from millpond.language.builtins.allowed import RELATION_AGGREGATES, SCALARS

_FUNCTIONS: Final = sorted(SCALARS | RELATION_AGGREGATES)
#: Behind these words a name of that kind stands; '' is any.
_AFTER: Final = {"from": "", "join": "", "invoke": "query", "explain": "query", "analyze": "query"}
_AFTER_KIND: Final = {"stream": "stream", "table": "table", "query": "query"}


class SqlCompleter(Completer):
    """Completes what is typed at the prompt.

    Arguments:
        names: the names of the pond.
        commands: the backslash commands, and what each does.
    """

    def __init__(self, names: Names, commands: dict[str, str]) -> None:
        self._names, self._commands = names, commands
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        """The completions of the word that the cursor stands behind, likely ones first."""
        before = document.text_before_cursor
        self._names.refresh()
        if before.lstrip().startswith("\\"):
            yield from self._command(before.lstrip(), event)
        elif not in_quiet(before):
            yield from self._sql(document, before)

    def _command(self, text: str, event: CompleteEvent) -> Iterator[Completion]:
        command, space, argument = text.partition(" ")
        if not space:
            for name, what in self._commands.items():
                if name.startswith(command):
                    yield Completion(name, -len(command), display_meta=what)
        elif command == "\\i":
            document = Document(argument.lstrip())
            yield from self._paths.get_completions(document, event)
        elif command in ("\\d", "\\follow"):
            argument = argument.lstrip()
            for name, kind in sorted(self._names.kinds.items()):
                if name.lower().startswith(argument.strip('"').lower()) and (command == "\\d" or kind == "query"):
                    yield Completion(name, -len(argument), display_meta=kind)

    def _sql(self, document: Document, before: str) -> Iterator[Completion]:
        typed = unfinished(before)
        prefix = typed.strip('"').lower()
        previous = [w.lower() for w in words_of(statement_at(before, len(before)))]
        if typed and previous:
            previous.pop()
        qualifier = re.search(r'("[^"]*"|[^\W\d]\w*)\.\Z', before[: len(before) - len(typed)])
        statement = statement_at(document.text, document.cursor_position)
        if qualifier:
            named = self._aliased(statement, qualifier[1].strip('"'))
            yield from _offered(typed, prefix, ((n, t) for n, t in self._names.columns(named)))
            return
        options = options_at(statement_at(before, len(before))) if not typed.startswith('"') else None
        if options is not None:
            for text, about in options:
                if text.strip("'").startswith(prefix):
                    yield Completion(text, -len(typed), display_meta=about)
            return
        kinds = self._names.kinds
        wanted = _wanted(previous)
        if wanted is not None:
            yield from _offered(typed, prefix, ((n, k) for n, k in sorted(kinds.items()) if wanted in ("", k)))
            return
        used = [n for n in dict.fromkeys(words_of(statement)) if n.lower() in {k.lower() for k in kinds}]
        columns = {n: t for name in used for n, t in self._names.columns(name)}
        yield from _offered(typed, prefix, columns.items())
        if typed.startswith('"'):
            return
        for keyword in KEYWORDS if prefix else ():
            if keyword.lower().startswith(prefix):
                yield Completion(keyword.lower() if typed.islower() else keyword, -len(typed))
        yield from _offered(typed, prefix, ((n, k) for n, k in sorted(kinds.items())))
        for function in _FUNCTIONS if len(prefix) > 1 else ():
            if function.startswith(prefix):
                yield Completion(f"{function}(", -len(typed), display_meta="function")

    def _aliased(self, statement: str, alias: str) -> str:
        """The name that an alias stands for in a statement: the word before it, or before `AS`."""
        words = [w for w in words_of(statement) if w.upper() != "AS"]
        kinds = {k.lower() for k in self._names.kinds}
        for before, word in itertools.pairwise(words):
            if word.lower() == alias.lower() and before.lower() in kinds:
                return before
        return alias


def _wanted(previous: list[str]) -> str | None:
    """Which kind of name stands behind these words; None when it need not be a name."""
    if not previous:
        return None
    last = previous[-1]
    if last in _AFTER:
        return _AFTER[last]
    if len(previous) > 1 and previous[-2] in ("drop", "alter") and last in _AFTER_KIND:
        return _AFTER_KIND[last]
    return None


def _offered(typed: str, prefix: str, names: Iterable[tuple[str, str]]) -> Iterator[Completion]:
    for name, what in names:
        if name.lower().startswith(prefix):
            yield Completion(quoted(name), -len(typed), display=name, display_meta=what)
