"""What is being typed: where a statement ends, which words and names it has, and whether the cursor is in a text."""

from __future__ import annotations

import functools
import re
from typing import Final

from sqlglot import exp

from millpond.language import Select, parse
from millpond.language.inference.column_types import NAMES
from millpond.language.script import STATEMENTS
from millpond.language.syntax.window_clause import PARAMETERS
from millpond.support.errors import StatementError
from millpond.support.sql import quote
from millpond.types.durations import UNIT_NAMES, UNITS

#: Comments, texts and quoted names; the last alternative is one that is still open.
_QUIET: Final = re.compile(
    r"--[^\n]*(?:\n|\Z)|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|(?P<open>/\*.*|'.*|\".*)", re.DOTALL
)
_WORD: Final = re.compile(r'"(?:[^"]|"")*"|[^\W\d][\w$]*')
#: What leaves the prompt, and what helps, besides the commands with a backslash.
PLAIN: Final = {"exit": "\\q", "quit": "\\q", "help": "\\?"}


def command_of(text: str) -> str | None:
    r"""The backslash command that a text is, or None when it is SQL.

    >>> command_of("  \\d reading"), command_of("help;"), command_of("SELECT 1")
    ('\\d reading', '\\?', None)
    """
    stripped = text.strip()
    if stripped.startswith("\\"):
        return stripped
    return PLAIN.get(stripped.rstrip("; \n").lower())


def is_complete(text: str) -> bool:
    r"""Whether Enter runs this: nothing, a command, or SQL that ends with a semicolon outside of texts and comments.

    >>> is_complete("SELECT 1"), is_complete("SELECT ';"), is_complete("SELECT 1; -- done"), is_complete("\\q")
    (False, False, True, True)
    """
    if command_of(text) is not None:
        return True
    bare = without_quiet(text)
    return bare is not None and (not bare.strip() or bare.rstrip().endswith(";"))


def without_quiet(text: str) -> str | None:
    """A text with its comments removed and its texts and quoted names emptied; None when one of them is still open.

    >>> without_quiet("a = 'b;' -- c"), without_quiet("a = 'b")
    ("a = '' ", None)
    """
    still_open = False

    def emptied(found: re.Match[str]) -> str:
        nonlocal still_open
        still_open = still_open or found["open"] is not None
        return found[0][0] * 2 if found[0][0] in "'\"" else ""

    bare = _QUIET.sub(emptied, text)
    # A line comment without a line's end is a whole one.
    return None if still_open else bare


def in_quiet(before: str) -> bool:
    """Whether the cursor, behind this text, stands in a text or a comment (a quoted name is not one).

    >>> in_quiet("SELECT 'ab"), in_quiet("-- ab"), in_quiet('SELECT "ab')
    (True, True, False)
    """
    for found in _QUIET.finditer(before):
        if found["open"]:
            return found[0][0] != '"'
        if found[0].startswith("--") and not found[0].endswith("\n") and found.end() == len(before):
            return True
    return False


def unfinished(before: str) -> str:
    """The word or the quoted name at the end of a text that is not closed yet, '' where there is none.

    >>> unfinished('SELECT "a b" FROM re'), unfinished('SELECT "a b'), unfinished('SELECT "a b" ')
    ('re', '"a b', '')
    """
    for found in _QUIET.finditer(before):
        if found["open"]:
            return found[0]
    last = re.search(r"[^\W\d]\w*\Z", before)
    return last[0] if last else ""


def statement_at(text: str, cursor: int) -> str:
    """The statement of a script in which the cursor stands.

    >>> statement_at("SELECT 1; SELECT a FROM b", 20)
    ' SELECT a FROM b'
    """
    start, end = 0, len(text)
    covered = [found.span() for found in _QUIET.finditer(text)]
    for found in re.finditer(";", text):
        if any(a <= found.start() < b for a, b in covered):
            continue
        if found.start() < cursor:
            start = found.end()
        else:
            end = found.start()
            break
    return text[start:end]


def words_of(text: str) -> list[str]:
    """The words and names of a text, quoted ones without their quotes, texts and comments left out.

    >>> words_of('SELECT "My col" FROM a -- b')
    ['SELECT', 'My col', 'FROM', 'a']
    """
    kept = _QUIET.sub(lambda found: found[0] if found[0][0] == '"' else " ", text)
    return [w[1:-1].replace('""', '"') if w[0] == '"' else w for w in _WORD.findall(kept)]


def quoted(name: str) -> str:
    """A name as it is written in a statement: with double quotes where it needs them.

    >>> quoted("reading"), quoted("#7"), quoted("two words"), quoted("select"), quoted("kind")
    ('reading', '"#7"', '"two words"', '"select"', 'kind')
    """
    if re.fullmatch(r"[^\W\d]\w*", name) and _is_plain(name):
        return name
    return quote(name)


@functools.lru_cache(4096)
def _is_plain(word: str) -> bool:
    """Whether the grammar takes a word for a name, of a column and of what stands in FROM."""
    try:
        [statement] = parse(f"SELECT {word} FROM {word}")
    except (StatementError, ValueError):
        return False
    if not isinstance(statement, Select) or not isinstance(statement.select.tree, exp.Select):
        return False
    columns, tables = statement.select.tree.expressions, list(statement.select.tree.find_all(exp.Table))
    return len(columns) == 1 and isinstance(columns[0], exp.Column) and [t.name for t in tables] == [word]


def _words(text: str) -> set[str]:
    return {word for word in text.split() if word.isidentifier()}


#: Words of the language, as completion offers them. What a reader of statements has a list of is taken from there.
KEYWORDS: Final = tuple(
    sorted(
        _words(" ".join((*STATEMENTS, *PARAMETERS, *NAMES)))
        | {name.upper() for unit in UNITS for name in (UNIT_NAMES[unit], UNIT_NAMES[unit].removesuffix("s"))}
        | _words("""
            ADD ALL ALTER ALWAYS ANALYZE AND APPROX ARCHIVE ARRIVAL AS ASC BEGIN BETWEEN BY CASCADE CASE CAST COLUMN
            COLUMNS COPY CSV CUBE DAILY DATA DESC DESCRIBE DISTINCT DSTREAM ELSE END EPOCH EVERY EXCLUDE EXISTS FALSE
            FILTER FINAL FOR FORMAT FROM FUNCTIONS GENERATED GROUP HAVING HOURLY IF ILIKE IN INNER INTERVAL IS ISTREAM
            JOIN JSON LIKE LIMIT LOAD NOT NULL NULLS OF OFFSET OR ORDER PAIRS PARQUET PAUSE PIVOT QUALIFY QUERIES
            QUERY RANK REDUCE REPLACE RESUME REVISIONS ROLLUP ROW RSTREAM SET SETTINGS SHOW START STORED STREAM
            STREAMS SYNOPSES SYSTEM TABLE TABLES THEN TO TRUE TRY_CAST TYPE UNBOUNDED UNION UNPIVOT VALUES WATERMARK
            WATERMARKS WEEKLY WHEN WHERE WINDOW WITH WITHIN ZONE
        """)
    )
)
