"""The window in brackets behind a FROM item or an aggregate: `[RANGE 5 MINUTES SLIDE 1 MINUTE]`, `[ROWS 100]`, …"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from millpond.language.syntax.source_text import nearest
from millpond.language.syntax.token_stream import TokenStream
from millpond.support.errors import StatementError
from millpond.types import DAY, HOUR, CalendarSpan
from millpond.types.durations import (
    CALENDAR_UNITS,
    EXPECTED,
    UNITS,
    at_most,
    calendar_span,
    parse_duration,
    parse_timestamp,
    parts_of,
)

PARAMETERS = (
    "RANGE", "ROWS", "TUMBLING", "SLIDE", "ON", "ORIGIN", "ALIGN", "NOW", "PARTITION BY", "SINCE", "BY", "KIND",
    "OPEN", "CLOSED", "EVERY", "ZONE", "SESSION", "MAX",
)  # fmt: skip
#: Other spellings of parameters in the literature.
SYNONYMS = {"WA": "ON", "WATTR": "ON", "RATTR": "ON", "PA": "PARTITION BY", "PATTR": "PARTITION BY"}
#: What windows of a calendar look like.
DATED = "[RANGE TUMBLING 1 MONTH ZONE 'Europe/Berlin'], [RANGE ALL EVERY 1 MONTH SLIDE 1 DAY ZONE 'Europe/Berlin']"
GROWING = "[RANGE ALL EVERY 1 DAY SLIDE 1 HOUR], [RANGE ALL SINCE '06:00' DAILY SLIDE 1 HOUR]"
WORKS = "[RANGE 5 MINUTES SLIDE 1 MINUTE] or [RANGE TUMBLING 5 MINUTES]"
KINDS = (
    f"{WORKS}, [RANGE ALL SLIDE 1 HOUR], [ROWS 100 SLIDE 10], [PARTITION BY a ROWS 100 SLIDE 10], "
    "[RANGE 5 MINUTES SLIDE 1 ROW]; [SESSION 30 MINUTES]; [KIND months] where one is registered; "
    "without SLIDE a relation: [RANGE 5 MINUTES], [ROWS 100], [NOW], [RANGE UNBOUNDED]"
)

#: What a window behind an aggregate can begin with.
_FIRST = {
    "RANGE",
    "ROWS",
    "TUMBLING",
    "SLIDE",
    "ORIGIN",
    "ALIGN",
    "SINCE",
    "PARTITION BY",
    "PARTITION",
    "SATTR",
    "KIND",
    "ZONE",
    "SESSION",
} | (set(SYNONYMS))

Place = tuple[int, int]
#: Of a span of time: an amount, its unit, and where that stands.
SpanPart = tuple[str, str, Token]
Extent = Literal["range", "rows", "all", "now", "unbounded", "kind", "session"]


@dataclass(frozen=True)
class WindowClause:
    """A window as written; times in microseconds.

    extent: 'range' (rows of the last `range`), 'rows' (the last `rows` rows), 'all' (everything since a landmark),
        'now' and 'unbounded' (relations only), 'kind' (windows of the registered kind `kind`, at `kind_place`),
        'session' (runs of rows that are no further apart than `range`, or else than `gap` says of each).
    longest: of a session, how long it may be at most; None: as long as it goes on.
    slide, slide_rows: how far apart windows end, by time or by rows; both None: a relation, defined at every instant.
    numbered: what rows are counted in: their rank in event time, or their arrival.
    since, every, zone: the landmark (None: the start of the stream), how often there is a new one, whose days; the
        zone stands at `zone_place`. always: there have been some before it, too (EVERY without SINCE).
    calendar: RANGE (of windows that grow: EVERY) and SLIDE where they count days or months of a zone's calendar.
    months: how many months lie between landmarks, where it is months that they are counted in.
    attribute: the column after ON. partition: columns of PARTITION BY with their places. place: the brackets.
    open_end: of a relation, whether a row leaves `range` after its event time, not just behind that.
    """

    extent: Extent
    place: Place
    range: int = 0
    rows: int = 0
    slide: int | None = None
    slide_rows: int | None = None
    numbered: Literal["rank", "arrival"] = "rank"
    partition: tuple[tuple[str, Place], ...] = ()
    since: int | None = None
    every: int | None = None
    zone: str = "UTC"
    zone_place: Place = (0, 0)
    always: bool = False
    calendar: tuple[CalendarSpan, CalendarSpan] | None = None
    months: int = 0
    origin: int | None = None
    align_start: bool = False
    attribute: str | None = None
    attribute_place: Place = (0, 0)
    kind: str = ""
    kind_place: Place = (0, 0)
    open_end: bool = False
    gap: exp.Expr | None = None
    longest: int | None = None

    @property
    def is_relation(self) -> bool:
        """Whether it has no SLIDE: a relation of CQL, defined at every instant."""
        return self.slide is None and self.slide_rows is None and self.extent not in ("kind", "session")


def begins_window(bracket: Token, word: Token, follows: Token | None) -> bool:
    """Whether three tokens begin a window, and not a subscript such as `x[range]` or `x[rows + 1]`."""
    if bracket.token_type != TokenType.L_BRACKET or not word or follows is None:
        return False
    if word.token_type in (TokenType.IDENTIFIER, TokenType.STRING) or word.text.upper() not in _FIRST:
        return False
    if word.text.upper() == "SESSION" and follows.token_type == TokenType.L_PAREN:
        return True
    return follows.token_type in (TokenType.NUMBER, TokenType.STRING) or follows.text.isidentifier()


def parse_window(parser: TokenStream) -> WindowClause:
    """Read the brackets at the parser's current token; StatementError when they are not a window."""
    return WindowReader(parser).read()


@dataclass
class WindowReader:
    """Reads a window, in brackets or written otherwise; see `WindowClause` for what its fields say.

    lengths, works: of a table function, its arguments by name (microseconds), and how it is written.
    """

    parser: TokenStream
    open: Token = field(init=False)
    seen: set[str] = field(default_factory=set)
    extent: Extent | None = None
    range: int = 0
    rows: int = 0
    slide: int | None = None
    slide_rows: int | None = None
    tumbling: bool = False
    numbered: Literal["rank", "arrival"] = "rank"
    partition: list[tuple[str, Place]] = field(default_factory=list)
    since: int | None = None
    every: int | None = None
    zone: str = "UTC"
    origin: int | None = None
    align_start: bool = False
    attribute: str | None = None
    parts: list[SpanPart] = field(default_factory=list)
    spans: dict[str, list[SpanPart]] = field(default_factory=dict)
    gap: exp.Expr | None = None
    longest: int | None = None
    lengths: dict[str, int] = field(default_factory=dict)
    works: str = ""

    def __post_init__(self) -> None:
        self.open = self.parser._curr
        self.attribute_place = (self.open.start, self.open.end + 1)
        self.slide_token = self.end_token = self.open
        self.kind, self.kind_place = "", self.attribute_place
        self.zone_place = self.attribute_place

    @property
    def token(self) -> Token:
        return self.parser._curr

    def word(self) -> str:
        literal = self.token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        return "" if literal or not self.token else self.token.text.upper()

    def fail(self, message: str, token: Token | None = None, expected: str = "", like: str = "") -> NoReturn:
        at = token or self.token or self.parser._prev
        raise StatementError(message, self.parser.sql, at.start, at.end + 1, expected, like)

    def read(self) -> WindowClause:
        self.parser._advance()
        while self.token and self.token.token_type != TokenType.R_BRACKET:
            self.parameter()
            if self.token.token_type == TokenType.COMMA:
                self.parser._advance()
        if not self.token:
            self.fail("the window's bracket is not closed", self.open, expected="']'")
        close = self.token
        self.parser._advance()
        return self.clause(close)

    def clause(self, close: Token) -> WindowClause:
        """What has been read, up to the token that closes it."""
        if self.extent is None:
            self.fail("a window needs RANGE, ROWS, SESSION or NOW", self.open, expected=KINDS)
        self.check(self.extent)
        calendar, months = self.dated(self.extent)
        return WindowClause(
            extent=self.extent,
            place=(self.open.start, close.end + 1),
            range=self.range,
            rows=self.rows,
            slide=self.slide,
            slide_rows=self.slide_rows,
            numbered=self.numbered,
            partition=tuple(self.partition),
            since=self.since,
            every=self.every,
            zone=self.zone,
            zone_place=self.zone_place,
            always="EVERY" in self.seen and "SINCE" not in self.seen,
            calendar=calendar,
            months=months,
            origin=self.origin,
            align_start=self.align_start,
            attribute=self.attribute,
            attribute_place=self.attribute_place,
            kind=self.kind,
            kind_place=self.kind_place,
            open_end="OPEN" in self.seen,
            gap=self.gap,
            longest=self.longest,
        )

    def check(self, extent: str) -> None:
        """Refuse parameters that do not go together."""
        slides = self.slide is not None or self.slide_rows is not None
        if extent == "session" and self.seen - {"SESSION", "MAX", "PARTITION BY", "ON"}:
            self.fail("sessions begin and end with their rows: beside the gap there is only MAX, PARTITION BY and ON",
                      self.open, expected="[SESSION 30 MINUTES MAX 4 HOURS]")  # fmt: skip
        if extent != "session" and "MAX" in self.seen:
            self.fail("MAX says how long a session may be", self.open, expected="[SESSION 30 MINUTES MAX 4 HOURS]")
        if extent == "kind" and (slides or self.seen - {"KIND", "ON"}):
            self.fail("a registered kind says all of its windows by itself", self.open, expected=f"[KIND {self.kind}]")
        if extent in ("now", "unbounded") and slides:
            self.fail(
                f"{extent.upper()} has no SLIDE: it is a relation, defined at every instant",
                self.slide_token,
                expected="[RANGE ALL SLIDE 1 HOUR] for a window that grows",
            )
        if extent == "all" and self.slide is None:
            self.fail(
                "a window since a landmark needs a SLIDE of time",
                self.open,
                expected="[RANGE ALL SLIDE 1 HOUR]; [RANGE UNBOUNDED] is the relation of everything so far",
            )
        if self.seen & {"OPEN", "CLOSED"} and (slides or extent != "range" or {"OPEN", "CLOSED"} <= self.seen):
            self.fail("OPEN or CLOSED says where a window of time without SLIDE ends", self.end_token,
                      expected="[RANGE 5 MINUTES OPEN]")  # fmt: skip
        if extent == "rows" and self.slide is not None:
            self.fail("a window of rows slides by rows", self.slide_token, expected="SLIDE 10 ROWS")
        if self.tumbling and extent not in ("range", "rows"):
            self.fail("TUMBLING goes with a time or with rows", self.open, expected=WORKS)
        if (self.origin is not None or self.align_start) and self.slide is None:
            self.fail("ORIGIN and ALIGN place windows that slide by time", self.open, expected=WORKS)
        if self.align_start and extent == "all":
            self.fail("windows that grow begin at their landmarks: ALIGN is for a RANGE", self.open, expected=GROWING)
        if self.seen & {"EVERY", "ZONE"} and (self.slide is None or extent not in ("range", "all")):
            self.fail("EVERY and ZONE are for windows that slide by time", self.open, expected=DATED)
        if "EVERY" in self.seen and extent != "all":
            self.fail("EVERY says when windows that grow begin anew: it goes with RANGE ALL", self.open,
                      expected=GROWING)  # fmt: skip
        if "BY" in self.seen and self.slide_rows is None:
            self.fail("BY ARRIVAL and BY RANK say which rows SLIDE counts", self.open, expected="SLIDE 10 ROWS")
        if self.partition and extent not in ("rows", "session") and self.slide_rows is None:
            self.fail(
                "PARTITION BY goes with sessions and windows that count rows; over time it is the same as GROUP BY",
                self.open,
                expected="GROUP BY, or [PARTITION BY a ROWS 100]",
            )

    def dated(self, extent: str) -> tuple[tuple[CalendarSpan, CalendarSpan] | None, int]:
        """RANGE and SLIDE, or EVERY and SLIDE, as those of a calendar; and the months of EVERY beside another SLIDE."""
        spans = {name: [(amount, unit) for amount, unit, _ in parts] for name, parts in self.spans.items()}
        step = calendar_span(spans.get("RANGE" if self.tumbling else "SLIDE", ()))
        length = calendar_span(spans.get("EVERY" if extent == "all" else "RANGE", ()))
        if "ZONE" in self.seen and "SINCE" not in self.seen:
            if length is not None and step is not None:
                return (length, step), 0
            if extent == "all" and length is not None:
                return None, length.count if length.unit == "months" else 0
            self.fail("ZONE is for windows of whole days, weeks, months, quarters or years", self.open, expected=DATED)
        months = length.count if "SINCE" in self.seen and length is not None and length.unit == "months" else 0
        for name, parts in self.spans.items():
            if name != "EVERY" or not months:
                self.must_be_fixed(parts)
        return None, months

    def must_be_fixed(self, parts: list[SpanPart]) -> None:
        """Refuse spans of months where no zone says whose."""
        for _, unit, at in parts:
            if unit.lower() in CALENDAR_UNITS:
                self.fail(f"{unit} has no fixed length: name the time zone whose calendar counts it", at,
                          expected=DATED)  # fmt: skip

    def parameter(self) -> None:
        token = self.token
        word = SYNONYMS.get(self.word(), self.word())
        if word in ("GROUPS", "PRECEDING", "FOLLOWING", "BETWEEN"):
            self.fail(f"{word} is not a parameter of a window", token, expected=KINDS)
        if word == "SATTR":
            self.read_sattr(token)
            return
        if word not in PARAMETERS:
            what = f"'{token.text}' is not a parameter of a window"
            self.fail(what, expected="RANGE, ROWS, SESSION, SLIDE, PARTITION BY, ON, ORIGIN or ALIGN START",
                      like=nearest(word, PARAMETERS))  # fmt: skip
        if word in self.seen or (word == "TUMBLING" and "SLIDE" in self.seen) or (word == "SLIDE" and self.tumbling):
            self.fail(f"{word} is given twice (TUMBLING also gives SLIDE)" if word in ("SLIDE", "TUMBLING")
                      else f"{word} is given twice")  # fmt: skip
        self.seen.add(word)
        self.parser._advance()
        getattr(self, f"read_{word.lower().replace(' ', '_')}")(token)

    def covers(self, extent: Extent, token: Token) -> None:
        """The window covers this; twice is once too often."""
        if self.extent is not None and not (self.extent == "all" and extent == "all"):
            self.fail("a window has one extent", token, expected="either RANGE or ROWS")
        self.extent = extent

    def read_range(self, token: Token) -> None:
        word = self.word()
        if word in ("UNBOUNDED", "ALL"):
            self.covers("unbounded" if word == "UNBOUNDED" else "all", self.token)
            self.parser._advance()
        elif word != "TUMBLING":  # behind it the next parameter reads the time
            self.amount(token, "RANGE")

    def read_rows(self, token: Token) -> None:
        if self.word() == "UNBOUNDED":
            self.covers("unbounded", self.token)
            self.parser._advance()
            return
        if self.word() == "TUMBLING":
            return
        self.covers("rows", token)
        self.rows = self.count("ROWS")

    def read_tumbling(self, token: Token) -> None:
        self.tumbling = True
        if self.extent is None and "ROWS" in self.seen:  # [ROWS TUMBLING 100]
            self.covers("rows", token)
            self.rows = self.count("TUMBLING")
        elif self.extent is None:
            self.amount(token, "RANGE")
        if self.extent == "rows":
            self.slide_rows = self.rows
        elif self.extent == "range":
            self.slide = self.range

    def read_every(self, token: Token) -> None:
        if self.every is not None:
            self.fail("the landmark says already how often there is a new one", token)
        self.every = self.positive("EVERY")

    def read_zone(self, token: Token) -> None:
        if self.token.token_type != TokenType.STRING:
            self.fail("ZONE takes a text", expected="ZONE 'Europe/Berlin'")
        self.zone, self.zone_place = self.token.text, (self.token.start, self.token.end + 1)
        self.parser._advance()

    def read_kind(self, token: Token) -> None:
        self.covers("kind", token)
        self.kind_place = (self.token.start, self.token.end + 1)
        self.kind = self.name("KIND")

    def read_session(self, token: Token) -> None:
        """A span of time, or an expression over the row that is one."""
        self.covers("session", token)
        follows, literals = self.parser._next, (TokenType.NUMBER, TokenType.STRING)
        literal = follows if self.word() == "INTERVAL" else self.token
        if literal and literal.token_type in (*literals, TokenType.DASH):
            self.range = self.positive("SESSION")
            return
        begin = self.token
        self.gap = self.parser._parse_bitwise()
        if self.gap is None:
            self.fail("SESSION takes the gap that ends a session", begin, expected="[SESSION 30 MINUTES]")

    def read_max(self, token: Token) -> None:
        self.longest = self.positive("MAX")

    def read_open(self, token: Token) -> None:
        self.end_token = token

    read_closed = read_open

    def read_now(self, token: Token) -> None:
        self.covers("now", token)

    def amount(self, token: Token, name: str) -> None:
        """`RANGE n ROWS`, or a span of time."""
        if (rows := self.rows_here(name)) is not None:
            self.covers("rows", token)
            self.rows = rows
        else:
            self.covers("range", token)
            self.range = self.positive(name)

    def read_slide(self, token: Token) -> None:
        self.slide_token = token
        if (rows := self.rows_here("SLIDE")) is not None:
            self.slide_rows = rows
        elif self.extent == "rows" and self.token.token_type == TokenType.NUMBER and not self.unit_follows():
            self.slide_rows = self.count("SLIDE")  # [ROWS 100 SLIDE 10]
        else:
            self.slide = self.positive("SLIDE")

    def read_by(self, token: Token) -> None:
        if self.word() not in ("ARRIVAL", "RANK"):
            self.fail("BY takes ARRIVAL or RANK", expected="SLIDE 10 ROWS BY ARRIVAL")
        self.numbered = "arrival" if self.word() == "ARRIVAL" else "rank"
        self.parser._advance()

    def read_sattr(self, token: Token) -> None:
        """`SATTR row_num` and `SATTR rank(ts)`: the literature's way to say what SLIDE counts."""
        self.parser._advance()
        word = self.word()
        self.numbered = "rank" if word == "RANK" else "arrival"
        self.seen.add("BY")
        self.name("SATTR")
        if word == "RANK" and self.token.text == "(":
            self.parser._advance()
            self.name("rank")
            if self.token.text != ")":
                self.fail("the parenthesis is not closed", expected="')'")
            self.parser._advance()
        elif word not in ("RANK", "ROW_NUM", "SEQ_NUM", "ROWNUM"):
            self.fail("SATTR takes row_num or rank(column)", self.parser._prev, expected="SLIDE 10 ROWS BY ARRIVAL")

    def read_partition_by(self, token: Token) -> None:
        while True:
            place = (self.token.start, self.token.end + 1)
            self.partition.append((self.name("PARTITION BY"), place))
            follows = self.parser._next
            if self.token.token_type != TokenType.COMMA or not follows:
                return
            if SYNONYMS.get(follows.text.upper(), follows.text.upper()) in PARAMETERS:
                return
            self.parser._advance()

    def read_since(self, token: Token) -> None:
        """`SINCE TIMESTAMP '…'`, `SINCE '06:00' DAILY`, `SINCE 06:00 DAILY`, with `EVERY 1 HOUR` instead of DAILY."""
        if self.extent is None:
            self.extent = "all"
        elif self.extent != "all":
            self.fail("a landmark goes with RANGE ALL", token, expected="[RANGE ALL SINCE '06:00' DAILY SLIDE 1 HOUR]")
        at = self.token
        if self.word() in ("TIMESTAMP", "TIMESTAMPTZ"):
            self.parser._advance()
            at = self.token
        text = self.token.text
        self.parser._advance()
        if re.fullmatch(r"\d{1,2}", text) and self.token.token_type == TokenType.COLON:
            self.parser._advance()
            text = f"{text}:{self.token.text}"
            self.parser._advance()
        if clock := re.fullmatch(r"\s*(\d{1,2}):(\d\d)(?::(\d\d))?\s*", text):
            hours, minutes, seconds = (int(part or 0) for part in clock.groups())
            if hours > 23 or minutes > 59 or seconds > 59:
                self.fail(f"'{text}' is not a time of day", at, expected="'06:00'")
            self.since, self.every = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000, DAY
        else:
            try:
                self.since = parse_timestamp(text)
            except ValueError as fault:
                self.fail(str(fault), at, expected="SINCE '06:00' DAILY or SINCE TIMESTAMP '2024-01-01 00:00:00'")
        if self.word() in ("DAILY", "HOURLY", "WEEKLY"):
            self.every = {"DAILY": DAY, "HOURLY": HOUR, "WEEKLY": 7 * DAY}[self.word()]
            self.parser._advance()
        elif self.word() == "EVERY":
            self.parser._advance()
            self.every = self.positive("EVERY")

    def read_on(self, token: Token) -> None:
        self.attribute_place = (self.token.start, self.token.end + 1)
        self.attribute = self.name("ON")

    def name(self, behind: str) -> str:
        """The name of a column at the current token."""
        if self.token.token_type not in (TokenType.IDENTIFIER, TokenType.VAR) and not self.word().isidentifier():
            self.fail(f"{behind} names a column", expected="a column")
        text = self.token.text
        self.parser._advance()
        return text

    def read_origin(self, token: Token) -> None:
        if self.word() in ("TIMESTAMP", "TIMESTAMPTZ", "DATE"):
            self.parser._advance()
            if self.token.token_type != TokenType.STRING:
                self.fail("ORIGIN TIMESTAMP takes a text", expected="ORIGIN TIMESTAMP '2024-01-01 00:00:00'")
        elif self.token.token_type != TokenType.STRING or any(c in self.token.text for c in "smhdwSMHDW"):
            self.parts = []
            self.origin = self.time()
            self.must_be_fixed(self.parts)
            return
        try:
            self.origin = parse_timestamp(self.token.text)
        except ValueError as fault:
            self.fail(str(fault), expected="ORIGIN TIMESTAMP '2024-01-01 00:00:00' or a span of time since 1970")
        self.parser._advance()

    def read_align(self, token: Token) -> None:
        if self.word() not in ("START", "END"):
            self.fail("ALIGN takes START or END", expected="ALIGN START", like=nearest(self.word(), ["START", "END"]))
        self.align_start = self.word() == "START"
        self.parser._advance()

    # --- numbers and times --------------------------------------------------------------------------------------------

    def rows_here(self, name: str) -> int | None:
        """The number in `n ROWS` at the current token, which is passed then; None when no such thing is there."""
        follows = self.parser._next
        if self.token.token_type != TokenType.NUMBER or not follows:
            return None
        if follows.token_type == TokenType.STRING or follows.text.upper() not in ("ROW", "ROWS"):
            return None
        rows = self.count(name)
        self.parser._advance()
        return rows

    def count(self, name: str) -> int:
        """A number of rows; thousands may be set off by commas: 10,000."""
        token, text = self.token, self.token.text.replace("_", "")
        if token.token_type != TokenType.NUMBER or not text.isdigit():
            self.fail(f"{name} takes a number of rows", token, expected=f"{name} 100")
        self.parser._advance()
        while self.token.token_type == TokenType.COMMA:
            follows = self.parser._next
            if not follows or not re.fullmatch(r"\d{3}", follows.text):
                break
            self.parser._advance()
            text += self.token.text
            self.parser._advance()
        if not 0 < int(text) < 2**40:
            self.fail(f"{name} takes a number of rows from 1 on", token, expected=f"{name} 100")
        return int(text)

    def unit_follows(self) -> bool:
        follows = self.parser._next
        return bool(follows) and follows.text.upper() not in PARAMETERS and follows.text.isalpha()

    def positive(self, name: str) -> int:
        token = self.token
        self.parts = []
        value = self.time()
        self.spans[name] = self.parts
        if value <= 0:
            self.fail(f"{name} must be longer than nothing", token, expected=EXPECTED)
        return value

    def time(self) -> int:
        """A span of time: `5 MINUTES`, `1 HOUR 30 MINUTES`, `'90 s'`, `INTERVAL '5' MINUTES`, `INTERVAL 5 MINUTES`."""
        first = self.token
        if self.word() == "INTERVAL":
            self.parser._advance()
        sign = ""
        if self.token.token_type == TokenType.DASH:
            sign = "-"
            self.parser._advance()
        if self.token.token_type == TokenType.STRING and not sign:
            text, at = self.token.text, self.token
            self.parser._advance()
            if self.is_unit():
                return self.counted(text.strip(), at)
            written = parts_of(text)
            self.parts += [(amount, unit, at) for amount, unit in written]
            try:
                return sum(at_most(*part) for part in written) if written else parse_duration(text)
            except ValueError as fault:
                self.fail(str(fault), at, expected=EXPECTED)
        total = parts = 0
        while (at := self.token).token_type == TokenType.NUMBER:
            self.parser._advance()
            total += self.counted(sign + at.text, at)
            parts += 1
        if not parts:
            found = f"'{first.text}' is not a span of time" if first else "a span of time is missing"
            self.fail(found, first, expected=EXPECTED)
        return total

    def is_unit(self) -> bool:
        return bool(self.word()) and self.word() not in PARAMETERS and self.word().isalpha()

    def counted(self, amount: str, at: Token) -> int:
        """`amount` of the unit at the current token."""
        if not self.is_unit():
            self.fail(f"{amount} of what? A unit of time is missing", at, expected=EXPECTED)
        unit = self.token
        self.parser._advance()
        self.parts.append((amount, unit.text, unit))
        try:
            return at_most(amount, unit.text)
        except (ValueError, ZeroDivisionError) as fault:
            self.fail(str(fault), unit, expected=EXPECTED, like=nearest(unit.text, [u for u in UNITS if len(u) > 2]))
