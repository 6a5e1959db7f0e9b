"""Completion of options: their names behind `WITH (` and `SET`, and their values behind `=`."""

from __future__ import annotations

import re
from typing import Final

from millpond.cli.typed import without_quiet
from millpond.types.options import QueryOptions, Settings, StreamTerms, Table, TableTerms, derived_options, live
from millpond.types.options import options_of as of

_CREATE: Final = re.compile(r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(QUERY|TABLE|STREAM)\b", re.I)
_COLUMNS: Final = re.compile(r'\s*CREATE\s+STREAM\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:""|\w+)\s*\(', re.I)
_ALTER: Final = re.compile(r'\s*ALTER\s+(?:(SYSTEM)|(STREAM|TABLE|QUERY)\s+(?:""|\w+))\s+SET\b', re.I)
#: Behind the last of these options stand, up to the parenthesis that closes them.
_OPENING: Final = re.compile(r"\b(?:(?:WITH|SET)\s*\(|SET\s)(?=[^()]*\Z)", re.I)
_NAMED: Final = re.compile(r"\s*(\w+)\s*=\s*\w*\Z")
_NAMING: Final = re.compile(r"\s*\w*\Z")


def options_at(before: str) -> list[tuple[str, str]] | None:
    """What can be written where the cursor stands, each with what it is; None where no option stands.

    Arguments:
        before: the statement up to the cursor, which is in no text.

    >>> options_at("ALTER STREAM s SET (")[0][0], options_at("CREATE QUERY q WITH (empty = ")
    ('retention', [("'skip'", 'empty'), ("'report'", 'empty')])
    >>> options_at("CREATE STREAM s (ts TIMESTAMP, ")
    """
    text = without_quiet(before)
    opening = None if text is None else _OPENING.search(text)
    if text is None or opening is None or (known := _table(text[: opening.end()])) is None:
        return None
    last = text[opening.end() :].rsplit(",", 1)[-1]
    if _NAMING.match(last):
        return [(option.name, option.about) for option in known.values()]
    named = _NAMED.match(last)
    option = known.get(named[1].lower()) if named else None
    return None if option is None else [(value, option.name) for value in option.kind.offered]


def _table(text: str) -> Table | None:
    """The options that a statement has whose text goes up to them."""
    if altered := _ALTER.match(text):
        owners = {"SYSTEM": Settings, "STREAM": StreamTerms, "TABLE": TableTerms, "QUERY": QueryOptions}
        return live(owners[(altered[1] or altered[2]).upper()])
    created = _CREATE.match(text)
    if created is None or not re.search(r"WITH\s*\(\Z", text, re.I):
        return None
    kind = created[1].upper()
    if kind == "STREAM":
        return of(StreamTerms) if _COLUMNS.match(text) else derived_options()
    return of(QueryOptions if kind == "QUERY" else TableTerms)
