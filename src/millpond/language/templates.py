"""Registration by shape: queries that differ only in constants are bound once and then filled in.

A template knows which constants of a text are those of indexed factors (its slots). For another text of the same
shape only the ranges of these constants are computed anew; everything else is taken over. Any doubt (a constant that
is none of the type, a pattern with other wildcards) leads to the ordinary way, with its errors.
"""

from __future__ import annotations

import functools
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from millpond.language.conditions.axes import Constant, ConstantFault
from millpond.language.conditions.factors import Factor, Marks, boxes_of, number_form, ranges_of
from millpond.language.inference.zoned import utc_text
from millpond.language.plan.row_binding import Analysis, in_steps, unmarked, without_marks
from millpond.language.plan.standing import analyse
from millpond.language.registering import bind_standing
from millpond.language.resolve.schema import Schema
from millpond.language.script import parse
from millpond.language.syntax.bounds_clause import EdgeReader
from millpond.language.syntax.dialect import tokenize
from millpond.language.syntax.source_text import token_span
from millpond.language.syntax.statement_types import Select
from millpond.language.syntax.written_select import WrittenSelect
from millpond.support.errors import StatementError
from millpond.types import (
    Expression,
    JoinFactor,
    Query,
    RowQuery,
    ScanQuery,
    Side,
    Span,
    Staged,
    StreamDefinition,
    all_of,
)

_CONSTANT = re.compile(
    r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![\w.$])(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))""", re.ASCII
)
_ODD = re.compile(r"--|/\*|;|\$|\\|[\ufdd0\ufdd1\0]")
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Like)
_SHAPES, _VARIANTS, _LONGEST = 4096, 256, 20_000


@dataclass(frozen=True)
class _Clause:
    """Where a BEGIN … END clause stands: number of its first and last gap, and the offset in each."""

    first: int
    start: int
    last: int
    end: int
    sides: tuple[int, ...]


@dataclass(frozen=True)
class _Slotted:
    """A factor with slots: `pieces` of its SQL around them, in their order."""

    factor: Factor
    pieces: tuple[str, ...]
    slots: tuple[int, ...]

    def fill(self, constants: Sequence[str]) -> Factor | None:
        """The factor with other constants; None when it is none of one attribute any more."""
        sql = self.pieces[0]
        for slot, piece in zip(self.slots, self.pieces[1:], strict=True):
            sql += constants[slot] + piece
        given = tuple(
            c if c.slot is None else Constant(c.form, _value(constants[c.slot]), c.negative, c.slot)
            for c in self.factor.constants
        )
        axis = self.factor.axis
        assert axis is not None
        if any(c.slot is not None and c.form != "integer" and utc_text(c.text) is not None for c in given):
            return None  # beside a TIMESTAMP it is another text
        ranges = ranges_of(axis, self.factor.test, given)
        asked = self.factor.sql
        filled = Expression(sql, asked.columns, asked.calls, type=asked.type)
        return None if ranges is None else Factor(filled, axis, self.factor.test, given, ranges)


@dataclass(frozen=True)
class _Template:
    """A bound selection and what of it depends on the constants of its text."""

    query: ScanQuery
    streams: tuple[StreamDefinition, ...]
    sides: tuple[tuple[Factor | _Slotted, ...], ...]
    spans: tuple[Span, ...]
    clauses: tuple[_Clause, ...]
    joins: tuple[JoinFactor, ...]
    slots: frozenset[int]

    def fill(self, text: str, parts: Sequence[str]) -> RowQuery | None:
        """The selection of a text that was split into `parts`."""
        constants = parts[1::2]
        spans = self.spans if not self.clauses else self.read_spans(parts)
        sides: list[Side] = []
        for stream, span, listed in zip(self.streams, spans, self.sides, strict=True):
            factors: list[Factor] = []
            for each in listed:
                factor = each if isinstance(each, Factor) else each.fill(constants)
                if factor is None:
                    return None
                factors.append(factor)
            sides.append(Side(stream.name, span, all_of([f.sql for f in factors]), boxes_of(factors)))
        return RowQuery(_with_text(self.query, text), tuple(sides), *in_steps(self.joins))

    def read_spans(self, parts: Sequence[str]) -> Sequence[Span]:
        """The windows, whose constants may differ."""
        spans = list(self.spans)
        for clause in self.clauses:
            inside = list(parts[2 * clause.first : 2 * clause.last + 1])
            inside[-1] = inside[-1][: clause.end]
            inside[0] = inside[0][clause.start :]
            written = "".join(inside)
            span = _read_span(written)
            for side in clause.sides:
                spans[side] = span
        return spans


@functools.lru_cache(maxsize=4096)
def _read_span(written: str) -> Span:
    return EdgeReader(tokenize(written), 0, written).clause().span


class Binder:
    """Binds texts of queries; quickly for those of a shape that it has seen before.

    Arguments:
        schema: what names mean; a stream that is declared anew is noticed.

    Safe for several threads.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._shapes: OrderedDict[tuple[str, ...], tuple[tuple[int, ...], OrderedDict[tuple[str, ...], _Template]]]
        self._shapes = OrderedDict()
        self._seen: OrderedDict[tuple[str, ...], None] = OrderedDict()
        self._lock = threading.Lock()

    def bind(self, text: str) -> Query | Staged:
        """What a SELECT asks, as `bind_standing` says it.

        Raises:
            StatementError: as `bind_standing`, with the place in `text`.
        """
        if len(text) > _LONGEST or _ODD.search(text):
            return self.ordinary(text)
        text = text.strip()
        parts = _CONSTANT.split(text)
        shape = _shape(parts)
        known = self._shapes.get(shape)
        if known is not None:
            fixed, variants = known
            template = variants.get(tuple([parts[2 * n + 1] for n in fixed]))
            if template is not None and self.valid(template):
                try:
                    filled = template.fill(text, parts)
                except (ConstantFault, StatementError):
                    filled = None
                return filled if filled is not None else self.ordinary(text)
        return self.learn(text, parts, shape)

    def ordinary(self, text: str) -> Query | Staged:
        """Parse and bind."""
        statement = _select_of(text)
        return bind_standing(statement.select, self.schema)

    def valid(self, template: _Template) -> bool:
        """Whether the streams are still those that the template was made for."""
        for stream in template.streams:
            found = self.schema.lookup(stream.name)
            if found is not stream and found != stream:
                return False
        return True

    def learn(self, text: str, parts: Sequence[str], shape: tuple[str, ...]) -> Query | Staged:
        """Bind in the ordinary way; a shape that comes for the second time becomes a template."""
        found = self.ordinary(text)
        if not found.in_register:
            return found
        with self._lock:
            if shape not in self._seen:
                self._seen[shape] = None
                if len(self._seen) > _SHAPES:
                    self._seen.popitem(last=False)
                return found
        template = _make(text, parts, self.schema)
        if template is None or template.fill(text, parts) != found:
            return found
        fixed = tuple(n for n in range(len(parts) // 2) if n not in template.slots)
        with self._lock:
            known = self._shapes.get(shape)
            if known is None or known[0] != fixed:
                known = self._shapes[shape] = (fixed, OrderedDict())
                if len(self._shapes) > _SHAPES:
                    self._shapes.popitem(last=False)
            known[1][tuple([parts[2 * n + 1] for n in fixed])] = template
            if len(known[1]) > _VARIANTS:
                known[1].popitem(last=False)
        return found


def _select_of(text: str) -> Select:
    statements = parse(text)
    if len(statements) != 1 or not isinstance(statements[0], Select):
        raise StatementError("a query is one SELECT", text, 0, None, "SELECT … FROM stream WHERE …")
    return statements[0]


def _shape(parts: Sequence[str]) -> tuple[str, ...]:
    """The text without its constants: what is between them, and of which kind each is."""
    kinds = [
        "'" if (c := each[0]) == "'" else each if c == '"' else "1" if each.isdigit() else number_form(each) or each
        for each in parts[1::2]
    ]
    return (*parts[::2], *kinds)


def _value(written: str) -> str:
    return written[1:-1].replace("''", "'") if written[0] == "'" else written


def _with_text(query: ScanQuery, text: str) -> ScanQuery:
    """`dataclasses.replace(query, text=text)`, which costs several times as much."""
    made = object.__new__(type(query))
    made.__dict__.update(query.__dict__)
    made.__dict__["text"] = text
    return made


# -- templates from texts ----------------------------------------------------------------------------------------


def _make(text: str, parts: Sequence[str], schema: Schema) -> _Template | None:
    """The template of a text that can be bound."""
    statement = _select_of(text)
    written, select = statement.select, statement.select.tree
    if statement.offset != 0:
        return None
    starts: dict[int, int] = {}
    position = 0
    for n, part in enumerate(parts):
        if n % 2:
            starts[position] = n // 2
        position += len(part)
    enums = "ENUM(" in str([getattr(schema.lookup(t.name), "columns", ()) for t in select.find_all(exp.Table)])
    marks: dict[str, tuple[int, exp.Literal]] = {}
    for literal in _conditions(select):
        slot = starts.get((token_span(literal) or (-1, 0))[0])
        if slot is None or _value(parts[2 * slot + 1]) != literal.name or not _is_constant(literal):
            continue
        if not (enums and literal.is_string):
            marks[f"\ufdd0{slot}\ufdd1"] = (slot, literal)
    analysis = analyse(written, schema, marks)
    sides = tuple(tuple(_slotted(f, marks, parts) for f in factors) for factors in analysis.factors)
    slots = frozenset(s for side in sides for f in side if isinstance(f, _Slotted) for s in f.slots)
    clauses = _clauses(written, analysis, parts)
    inside = {n for c in clauses for n in range(c.first, c.last)}
    query = replace(analysis.query, where=all_of(without_marks(each, marks) for each in analysis.rest))
    joins = tuple(_unmarked(join, marks) for join in analysis.joins)
    return _Template(query, tuple(_declared(analysis, schema)), sides, tuple(analysis.spans), clauses, joins,
                     slots | inside)  # fmt: skip


def _unmarked(join: JoinFactor, marks: Marks) -> JoinFactor:
    """A join factor with the constants themselves."""
    where = None if join.where is None else without_marks(join.where, marks)
    return replace(join, left=without_marks(join.left, marks), right=without_marks(join.right, marks), where=where)


def _declared(analysis: Analysis, schema: Schema) -> list[StreamDefinition]:
    """The streams as the schema holds them."""
    found = [schema.lookup(stream.name) for stream in analysis.streams]
    return [stream for stream in found if isinstance(stream, StreamDefinition)]


def _conditions(select: exp.Expr) -> list[exp.Literal]:
    """The literals of WHERE and ON."""
    clauses = [select.args.get("where"), *(j.args.get("on") for j in select.args.get("joins") or ())]
    return [literal for clause in clauses if clause is not None for literal in clause.find_all(exp.Literal)]


def _is_constant(literal: exp.Literal) -> bool:
    """Whether a literal stands alone on one side of a comparison."""
    node: exp.Expr | None = literal.parent
    while isinstance(node, exp.Neg | exp.Paren | exp.Cast):
        node = node.parent
    return isinstance(node, _COMPARISONS)


def _slotted(factor: Factor, marks: Marks, parts: Sequence[str]) -> Factor | _Slotted:
    """A factor with the slots of its constants cut out, and every other mark replaced."""
    own = {c.slot for c in factor.constants if c.slot is not None} if factor.axis is not None else set()
    others = {mark: found for mark, found in marks.items() if found[0] not in own}
    axis = factor.axis and replace(factor.axis, attribute=unmarked(factor.axis.attribute, others))
    factor = replace(factor, sql=without_marks(factor.sql, others), axis=axis)
    if not own:
        return factor
    pieces: list[str] = []
    slots: list[int] = []
    rest = factor.sql.sql
    while found := re.search("'?\ufdd0(\\d+)\ufdd1'?", rest):
        pieces.append(rest[: found.start()])
        slots.append(int(found[1]))
        rest = rest[found.end() :]
    return _Slotted(factor, (*pieces, rest), tuple(slots))


def _clauses(written: WrittenSelect, analysis: Analysis, parts: Sequence[str]) -> tuple[_Clause, ...]:
    """The BEGIN … END clauses, if there is a constant inside of one; those for both sides come first."""
    bounds = sorted(written.bounds, key=lambda c: c.alias is not None)
    gaps: list[tuple[int, int]] = []
    position = 0
    for n, part in enumerate(parts):
        if n % 2 == 0:
            gaps.append((position, position + len(part)))
        position += len(part)
    found: list[_Clause] = []
    for clause in bounds:
        start, end = clause.place
        first = next(n for n, (low, high) in enumerate(gaps) if low <= start <= high)
        last = next(n for n, (low, high) in enumerate(gaps) if low <= end <= high)
        sides = tuple(n for n, span in enumerate(analysis.spans) if clause.alias is None or span is clause.span)
        found.append(_Clause(first, start - gaps[first][0], last, end - gaps[last][0], sides))
    return tuple(found) if any(c.first != c.last for c in found) else ()
