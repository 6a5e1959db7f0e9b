"""The factors of a condition: which are ranges of one attribute, and which alternatives they make together.

A condition is a conjunction of factors. A comparison of an expression with constants becomes ranges on the
expression's axis; every other factor becomes an attribute of its own that is 1 where the factor holds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias, cast

from sqlglot import exp

from millpond.language.conditions.axes import Axis, Constant, Form, Kind, Value, axis_of, truth_attribute
from millpond.language.render.bound_expressions import expression_of
from millpond.language.render.rendering import render
from millpond.language.syntax.nodes import CheckedCast
from millpond.types import Expression, Interval

#: Most alternatives of a condition, and of one factor.
MAX_BOXES = 64

#: low, low_closed, high, high_closed; None for no bound.
Range: TypeAlias = "tuple[int | float | str | None, bool, int | float | str | None, bool]"
Box: TypeAlias = tuple[Interval, ...]

EVERYWHERE: Range = (None, True, None, True)
_TESTS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_REVERSED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
NEGATED = {
    "=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<", "between": "not between", "in": "not in",
    "like": "not like", "not like": "like", "null": "not null",
}  # fmt: skip
_CAST_FORMS: Mapping[str, Form] = {"DATE": "DATE", "TIMESTAMP": "TIMESTAMP", "TIMESTAMPTZ": "TIMESTAMPTZ"}

#: Constants of a template: the text that stands for one in the tree -> the number of its slot and what is written.
Marks: TypeAlias = "Mapping[str, tuple[int, exp.Literal]]"


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of a conjunction.

    sql: the whole factor. axis: None for a factor that is an attribute of its own.
    test: '=', '<', …, 'between', 'in', 'like', 'null' or a negation of these. never: the factor never holds.
    """

    sql: Expression
    axis: Axis | None = None
    test: str = ""
    constants: tuple[Constant, ...] = ()
    ranges: tuple[Range, ...] | None = None
    never: bool = False


class FactorReader:
    """Reads factors of resolved conditions over one stream.

    Arguments:
        kind: the DuckDB type of an expression, given as node and SQL.
        marks: constants of a template.
    """

    def __init__(self, kind: Callable[[exp.Expr, str], str], marks: Marks | None = None) -> None:
        self.kind, self.marks = kind, marks or {}

    def read(self, node: exp.Expr, negated: bool) -> Factor | None:
        """The factor; None for one that always holds. ConstantFault for a constant that is none of the type."""
        asked = expression_of(node)
        whole = asked.within("NOT (", ")", "BOOLEAN") if negated else asked
        if isinstance(node, exp.Boolean):
            return None if bool(node.this) != negated else Factor(whole, never=True)
        if isinstance(node, exp.Null):
            return Factor(whole, never=True)
        shape = self.shape(node)
        if shape is None:
            return Factor(whole)
        operand, test, constants = shape
        if negated:
            test = NEGATED[test]
        if any(c is None for c in constants) and test != "in":
            # compared with NULL; but NOT BETWEEN NULL AND 5 holds for 6
            return Factor(whole) if test == "not between" else Factor(whole, never=True)
        text = render(operand)
        axis = axis_of(text, self.kind(operand, text))
        if axis is None:
            return Factor(whole)
        given = tuple(c for c in constants if c is not None)
        if test == "in" and not given:
            return Factor(whole, never=True)
        ranges = ranges_of(axis, test, given)
        return Factor(whole) if ranges is None else Factor(whole, axis, test, given, ranges)

    def shape(self, node: exp.Expr) -> tuple[exp.Expr, str, list[Constant | None]] | None:
        """Operand, test and constants (None for NULL) of a comparison with constants."""
        if (test := _TESTS.get(type(node))) is not None:
            return self.comparison(node.this.unnest(), test, node.expression.unnest())
        if isinstance(node, exp.Between):
            return self.listed(node.this, "between", [node.args["low"], node.args["high"]])
        if isinstance(node, exp.In):
            return self.listed(node.this, "in", node.expressions)
        if isinstance(node, exp.Like) and not isinstance(node, exp.ILike):
            return self.listed(node.this, "not like" if node.args.get("negate") else "like", [node.expression])
        if isinstance(node, exp.Is) and isinstance(node.expression.unnest(), exp.Null):
            # An attribute that fails counts as NULL, and a row on which a condition fails must not match.
            return (node.this.unnest(), "null", []) if isinstance(node.this.unnest(), exp.Column) else None
        if isinstance(node, exp.Column):
            return node, "=", [Constant("boolean", "true")]
        return None

    def comparison(
        self, left: exp.Expr, test: str, right: exp.Expr
    ) -> tuple[exp.Expr, str, list[Constant | None]] | None:
        """A comparison of which one side is a constant."""
        for operand, constant, read in ((left, right, test), (right, left, _REVERSED[test])):
            found = self.constant(constant)
            if found is not False and _has_column(operand):
                return operand, read, [cast("Constant | None", found)]
        return None

    def listed(
        self, operand: exp.Expr, test: str, nodes: Sequence[exp.Expr]
    ) -> tuple[exp.Expr, str, list[Constant | None]] | None:
        """A test against several constants."""
        constants = [self.constant(n) for n in nodes]
        if not nodes or any(c is False for c in constants) or not _has_column(operand):
            return None
        return operand.unnest(), test, cast("list[Constant | None]", constants)

    def constant(self, node: exp.Expr) -> Constant | bool | None:
        """The constant that a node is; None for NULL, False for anything else."""
        node = node.unnest()
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Boolean):
            return Constant("boolean", "true" if node.this else "false")
        if isinstance(node, CheckedCast):
            form = _CAST_FORMS.get(node.args["kind"])
            inner = self.constant(node.this) if form is not None and not node.args.get("safe") else False
            if form is None or not isinstance(inner, Constant) or inner.form != "text":
                return False
            return replace(inner, form=form)
        negative = isinstance(node, exp.Neg)
        if negative:
            node = node.this.unnest()
        if not isinstance(node, exp.Literal):
            return False
        slot, literal = self.marks.get(node.name, (None, node))
        if literal.is_string:
            return False if negative else Constant("text", literal.name, slot=slot)
        form = number_form(literal.name)
        return False if form is None else Constant(form, literal.name, negative, slot)


def number_form(text: str) -> Form | None:
    """What kind of number digits are; None for digits with anything else between them."""
    if text.isascii() and text.isdigit():
        return "integer"
    mantissa, e, exponent = text.lower().partition("e")
    digits = mantissa.replace(".", "", 1)
    if not digits.isascii() or not digits.isdigit() or (e and not exponent.lstrip("+-").isdigit()):
        return None
    return "float" if e else "decimal"


def _has_column(node: exp.Expr) -> bool:
    return node.find(exp.Column) is not None


# -- ranges ------------------------------------------------------------------------------------------------------


def ranges_of(axis: Axis, test: str, constants: Sequence[Constant]) -> tuple[Range, ...] | None:
    """The ranges of values for which a test holds, in order and apart from each other; None when that is doubtful."""
    if test in ("null", "not null"):
        return (EVERYWHERE,)
    if test in ("like", "not like"):
        return _like(axis, test == "like", constants[0])
    if len(constants) > 1 and 0 < sum(c.form == "text" for c in constants) < len(constants):
        return None  # a text takes the type of the others
    values: list[Value] = []
    kinds: set[str] = set()
    for constant in constants:
        place = axis.place(constant)
        if place is None:
            return None
        kinds.add(place[0])
        values.append(place[1])
    if len(kinds) > 1:
        return None
    if test in ("in", "not in"):
        return _points(axis, test == "in", values)
    if test == "between":
        return meet(_compare(axis, ">=", values[0]), _compare(axis, "<=", values[1]))
    if test == "not between":
        if values[0] > values[1]:  # type: ignore[operator]  # constants of one kind
            return (EVERYWHERE,)
        return (*_compare(axis, "<", values[0]), *_compare(axis, ">", values[1]))
    return _compare(axis, test, values[0])


def _compare(axis: Axis, test: str, value: Value) -> tuple[Range, ...]:
    if axis.kind == "integer":
        return _compare_integer(axis, test, cast("int | Fraction", value))
    bound = cast("float | str", value)
    if test == "=":
        return ((bound, True, bound, True),)
    if test == "<>":
        return ((None, True, bound, False), (bound, False, None, True))
    if test in ("<", "<="):
        return ((None, True, bound, test == "<="),)
    return ((bound, test == ">=", None, True),)


def _compare_integer(axis: Axis, test: str, value: int | Fraction) -> tuple[Range, ...]:
    """Ranges with closed bounds inside the axis."""
    whole = math.floor(value)
    exact = whole == value
    if test == "=":
        return _clamp(axis, whole, whole) if exact else ()
    if test == "<>":
        return (*_clamp(axis, None, whole - 1), *_clamp(axis, whole + 1, None)) if exact else (EVERYWHERE,)
    if test in ("<", "<="):
        return _clamp(axis, None, whole - 1 if test == "<" and exact else whole)
    return _clamp(axis, whole if test == ">=" and exact else whole + 1, None)


def _clamp(axis: Axis, low: int | None, high: int | None) -> tuple[Range, ...]:
    if low is not None and low <= axis.low:
        low = None
    if high is not None and high >= axis.high:
        high = None
    if (low is not None and low > axis.high) or (high is not None and high < axis.low):
        return ()
    return ((low, True, high, True),)


def _points(axis: Axis, inside: bool, values: list[Value]) -> tuple[Range, ...] | None:
    """IN and NOT IN."""
    if len(values) > 4 * MAX_BOXES:
        return None
    if axis.kind == "integer":
        values = [v for v in values if math.floor(cast("int", v)) == v and axis.low <= cast("int", v) <= axis.high]
    points = sorted(set(values))  # of one kind
    found: list[Range] = []
    if inside:
        for point in points:
            bound = _plain(point)
            last = found[-1][2] if found else None
            if axis.kind == "integer" and last is not None and last == cast("int", bound) - 1:
                found[-1] = (found[-1][0], True, bound, True)
            else:
                found.append((bound, True, bound, True))
    else:
        found = [EVERYWHERE]
        for point in points:
            found[-1:] = list(meet((found[-1],), _compare(axis, "<>", point))) if found else []
    return tuple(found) if len(found) <= MAX_BOXES else None


def _plain(value: Value) -> int | float | str:
    return int(value) if isinstance(value, Fraction) else value


def _like(axis: Axis, holds: bool, constant: Constant) -> tuple[Range, ...] | None:
    """LIKE with a text that ends in % and has no other wildcard, or with none at all."""
    pattern = constant.text
    if axis.kind != "text" or axis.place(constant) is None or constant.form != "text":
        return None
    if "_" in pattern or "\\" in pattern:
        return None
    prefix = pattern.rstrip("%")
    if "%" in prefix:
        return None
    if prefix == pattern:
        return _compare(axis, "=" if holds else "<>", pattern)
    after = _successor(prefix)
    if not prefix:
        return (EVERYWHERE,) if holds else ()
    if holds:
        return ((prefix, True, after, after is None),)
    above: tuple[Range, ...] = ((after, True, None, True),) if after is not None else ()
    return ((None, True, prefix, False), *above)


def _successor(prefix: str) -> str | None:
    """The smallest text behind all that start with `prefix`; None when there is none."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if following == 0xD800 else following)


def meet(left: Sequence[Range], right: Sequence[Range]) -> tuple[Range, ...]:
    """What lies in a range of both; apart from each other if the ranges of each are."""
    found: list[Range] = []
    for one, other in itertools.product(left, right):
        low, low_closed = _inner(one[0], one[1], other[0], other[1], True)
        high, high_closed = _inner(one[2], one[3], other[2], other[3], False)
        empty = (
            low is not None and high is not None and (low > high or (low == high and not (low_closed and high_closed)))  # type: ignore[operator] # one kind
        )
        if not empty:
            found.append((low, low_closed, high, high_closed))
    return tuple(found)


def _inner(
    one: int | float | str | None, one_closed: bool, other: int | float | str | None, other_closed: bool, low: bool
) -> tuple[int | float | str | None, bool]:
    """The narrower of two bounds."""
    if one is None or other is None:
        return (other, other_closed) if one is None else (one, one_closed)
    if one == other:
        return one, one_closed and other_closed
    first = (one > other) == low  # type: ignore[operator] # bounds of one attribute are of one kind
    return (one, one_closed) if first else (other, other_closed)


# -- alternatives ------------------------------------------------------------------------------------------------


def boxes_of(factors: Sequence[Factor]) -> tuple[Box, ...]:
    """The alternatives of a conjunction, which exclude each other."""
    listed = factors
    while True:
        attributes = _attributes(listed)
        if attributes is None:
            return ()
        if all([len(a) == 1 for a in attributes]):
            return (tuple([a[0] for a in attributes]),)
        if math.prod(len(a) for a in attributes) <= MAX_BOXES:
            return tuple(itertools.product(*attributes))
        widest = max(attributes, key=len)[0].attribute
        listed = [
            Factor(f.sql) if f.axis is not None and f.axis.attribute == widest and len(f.ranges or ()) > 1 else f
            for f in listed
        ]


def _attributes(factors: Sequence[Factor]) -> list[list[Interval]] | None:
    """The intervals of every attribute; None if the condition can never hold."""
    ranges: dict[str, tuple[Range, ...]] = {}
    kinds: dict[str, Kind] = {}
    nulls: set[str] = set()
    for factor in factors:
        if factor.never:
            return None
        if factor.axis is None:
            attribute = truth_attribute(factor.sql.sql)
            kinds.setdefault(attribute, "integer")
            found: tuple[Range, ...] = ((1, True, 1, True),)
        else:
            attribute = factor.axis.attribute
            kinds.setdefault(attribute, factor.axis.kind)
            found = factor.ranges or ()
            if factor.test == "null":
                nulls.add(attribute)
                continue
        known = ranges.get(attribute)
        ranges[attribute] = met = found if known is None else meet(known, found)
        if not met:
            return None
    if any(attribute in ranges for attribute in nulls):
        return None
    intervals: list[list[Interval]] = []
    for attribute, kind in kinds.items():
        if attribute in nulls:
            intervals.append([Interval(attribute, kind, null=True)])
        else:
            intervals.append([Interval(attribute, kind, *_bounds(r)) for r in ranges[attribute]])
    return intervals


def _bounds(found: Range) -> tuple[int | float | str | None, int | float | str | None, bool, bool]:
    return found[0], found[2], found[1], found[3]
