"""Windows written as table functions: `TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '5' MINUTE)`, HOP, CUMULATE, SESSION.

They are other spellings of windows in brackets (SQL:2016's polymorphic table functions, as Flink has them): windows
start where the offset says, and a size is closed-open.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from millpond.language.syntax.nodes import with_suffix
from millpond.language.syntax.token_stream import TokenStream
from millpond.language.syntax.window_clause import WindowClause, WindowReader

#: What is written behind the table and its DESCRIPTOR, by function; the last one may be left out.
_ARGUMENTS = {
    "TUMBLE": ("SIZE", "OFFSET"),
    "HOP": ("SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("STEP", "SIZE", "OFFSET"),
    "SESSION": ("GAP", "MAX"),
}
#: Names of the first two arguments.
_NAMED = ("DATA", "TIMECOL")

WRITTEN = {
    "TUMBLE": "TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '5' MINUTE), the same as s [RANGE TUMBLING 5 MINUTES]",
    "HOP": "HOP(TABLE s, DESCRIPTOR(ts), slide, size), the same as s [RANGE size SLIDE slide ALIGN START]",
    "CUMULATE": "CUMULATE(TABLE s, DESCRIPTOR(ts), step, size), the same as s [RANGE ALL EVERY size SLIDE step]",
    "SESSION": "SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), gap), the same as s [PARTITION BY k SESSION gap]",
}

#: Reads the name of a table.
_Table = Callable[[], exp.Expr | None]


def begins_window_function(tokens: list[Token], at: int) -> bool:
    """Whether the tokens there are a call of one of these functions over a table, perhaps within TABLE(…)."""
    words = [t.text.upper() for t in tokens[at : at + 5]]
    if words[:2] == ["TABLE", "("]:
        words = words[2:]
    return len(words) > 2 and words[0] in _ARGUMENTS and words[1] == "(" and words[2] in ("TABLE", *_NAMED)


def parse_window_function(parser: TokenStream, table: _Table) -> exp.Table:
    """The FROM item that such a call at the current token is: the table with its window.

    Raises: StatementError.
    """
    within = parser._curr.text.upper() == "TABLE"
    if within:
        parser._advance(2)
    reader = _CallReader(parser)
    found = reader.call(table)
    if within:
        reader.closing()
    return found


class _CallReader(WindowReader):
    """Reads one call."""

    def call(self, table: _Table) -> exp.Table:
        """The table with its window."""
        name = self.word()
        self.works = WRITTEN[name]
        self.parser._advance(2)
        self.named("DATA")
        self.expect("TABLE")
        first = self.token
        found = table()
        if not isinstance(found, exp.Table) or not isinstance(found.this, exp.Identifier):
            self.fail(f"{name} is over a stream", first, expected=self.works)
        if self.word() == "PARTITION BY":
            self.partitions(name)
        self.comma(name)
        self.named("TIMECOL")
        self.descriptor()
        for place in _ARGUMENTS[name]:
            if self.token.text != ",":
                break
            self.parser._advance()
            argument = self.named(*_ARGUMENTS[name]) or place
            self.lengths[argument] = self.time() if argument == "OFFSET" else self.positive(argument)
        missing = [a for a in _ARGUMENTS[name] if a not in self.lengths and a not in ("OFFSET", "MAX")]
        if missing:
            self.fail(f"{name} needs {missing[0].lower()}", expected=self.works)
        close = self.token
        self.closing()
        return with_suffix(found, window=self.window(name, close))

    def window(self, name: str, close: Token) -> WindowClause:
        """The window in brackets that it is."""
        size = self.lengths.get("SIZE", 0)
        self.must_be_fixed([part for parts in self.spans.values() for part in parts])
        self.spans = {}
        if name == "SESSION":
            self.extent, self.range, self.longest = "session", self.lengths["GAP"], self.lengths.get("MAX")
            return self.clause(close)
        self.slide = self.lengths.get("SLIDE", self.lengths.get("STEP", size))
        self.origin = self.lengths.get("OFFSET")
        if name == "CUMULATE":
            self.extent, self.every = "all", size
            self.seen = {"EVERY"}
            if size % self.slide:
                self.fail("the size of CUMULATE is a multiple of its step", self.open, expected=self.works)
            return self.clause(close)
        self.extent, self.range, self.align_start = "range", size, True
        return self.clause(close)

    # --- its parts ---------------------------------------------------------------------------------------------------

    def named(self, *names: str) -> str:
        """The name that stands before an argument with =>, which is passed."""
        follows = self.parser._next
        if self.word() not in names or not follows or follows.text != "=>":
            return ""
        name = self.word()
        self.parser._advance(2)
        return name

    def expect(self, word: str) -> None:
        if self.word() != word:
            self.fail(f"{word} is expected here", expected=self.works)
        self.parser._advance()

    def comma(self, name: str) -> None:
        if self.token.token_type != TokenType.COMMA:
            self.fail(f"{name} needs the column of the event time", expected=self.works)
        self.parser._advance()

    def closing(self) -> None:
        if self.token.token_type != TokenType.R_PAREN:
            self.fail("the parenthesis is not closed here", expected=self.works)
        self.parser._advance()

    def descriptor(self) -> None:
        """`DESCRIPTOR(ts)`."""
        self.expect("DESCRIPTOR")
        if self.token.token_type != TokenType.L_PAREN:
            self.fail("DESCRIPTOR names a column", expected=self.works)
        self.parser._advance()
        self.attribute_place = (self.token.start, self.token.end + 1)
        self.attribute = self.name("DESCRIPTOR")
        self.closing()

    def partitions(self, name: str) -> None:
        """`PARTITION BY k`, behind the table of SESSION."""
        if name != "SESSION":
            self.fail("PARTITION BY is for SESSION; windows of time go by GROUP BY", expected=self.works)
        self.parser._advance()
        while True:
            place = (self.token.start, self.token.end + 1)
            self.partition.append((self.name("PARTITION BY"), place))
            follows = self.parser._next
            ends = follows is None or follows.text.upper() in ("DESCRIPTOR", *_NAMED)
            if self.token.token_type != TokenType.COMMA or ends:
                return
            self.parser._advance()
