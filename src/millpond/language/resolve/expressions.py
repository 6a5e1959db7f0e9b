"""Expressions: an allow-list of syntax, and their rendering as DuckDB SQL.

What a query says is rebuilt node by node; a node, an argument of a node or a function that is not listed here never
reaches DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from sqlglot import exp

from millpond.language.builtins.allowed import AGGREGATES, REFUSED, RELATION_FUNCTIONS, SCALARS, WINDOW_FUNCTIONS
from millpond.language.inference.column_types import NAMES, TypeRefused, type_sql
from millpond.language.inference.enum_texts import Kind, as_enum, enum_beside, is_text, values_of
from millpond.language.inference.zoned import cast_in_utc, in_utc
from millpond.language.render.bound_expressions import expression_of
from millpond.language.render.rendering import render
from millpond.language.resolve.registered_calls import check_call
from millpond.language.syntax.nodes import CheckedCast, RegisteredCall, WindowedCall, WrittenInterval
from millpond.language.syntax.source_text import Source, nearest, own_span
from millpond.support.errors import StatementError
from millpond.types import Expression, StreamDefinition
from millpond.types.durations import interval_text, unit_name

#: What other systems write as functions over a time, in GROUP BY.
_WINDOWED = ("tumble", "hop", "cumulate", "session", "window", "session_window")
_IN_BRACKETS = (
    "a window behind the stream: FROM s [RANGE TUMBLING 5 MINUTES], or FROM TUMBLE(TABLE s, DESCRIPTOR(ts), …)"
)
_OVER_RELATIONS = (
    "a window without SLIDE, FROM s [RANGE 5 MINUTES], which makes a relation; or a SELECT over a query's answers"
)
_BINARY = frozenset({"this", "expression"})
_UNARY = frozenset({"this"})

#: Node classes of scalar expressions with the arguments they may carry.
SCALAR_NODES: Mapping[type[exp.Expr], frozenset[str]] = {
    **dict.fromkeys(
        (
            exp.And, exp.Or, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is,
            exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod, exp.Pow, exp.SimilarTo, exp.Glob,
            exp.Escape, exp.RegexpLike, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseLeftShift, exp.BitwiseRightShift,
        ),
        _BINARY,
    ),
    **dict.fromkeys((exp.Not, exp.Neg, exp.BitwiseNot, exp.Paren, exp.Abs, exp.Boolean, exp.Var), _UNARY),
    **dict.fromkeys((exp.Like, exp.ILike), _BINARY | {"negate"}),
    exp.Null: frozenset(),
    exp.Div: _BINARY | {"typed", "safe"},
    exp.DPipe: _BINARY | {"safe"},
    exp.Literal: frozenset({"this", "is_string"}),
    exp.ByteString: frozenset({"this", "is_bytes"}),
    exp.RawString: _UNARY,
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "expressions"}),
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.If: frozenset({"this", "true", "false"}),
    exp.Interval: frozenset({"this", "unit"}),
    WrittenInterval: frozenset({"this", "unit", "text", "whole"}),
    exp.Extract: _BINARY,
    exp.AtTimeZone: frozenset({"this", "zone"}),
    exp.Bracket: frozenset({"this", "expressions"}),
    exp.Slice: frozenset({"this", "expression", "step"}),
    exp.Array: frozenset({"expressions", "value_constructor"}),
    exp.Struct: frozenset({"expressions"}),
    exp.PropertyEQ: _BINARY,
    exp.Tuple: frozenset({"expressions"}),
    exp.Dot: _BINARY,
    exp.Substring: frozenset({"this", "start", "length"}),
    exp.Trim: frozenset({"this", "expression", "position"}),
    exp.StrPosition: frozenset({"this", "substr"}),
    exp.Lambda: frozenset({"this", "expressions"}),
}  # fmt: skip

#: Nodes that need no parentheses inside another operator.
_ATOMS = (
    exp.Column, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Anonymous, exp.Func, exp.Array, exp.Struct, exp.Dot,
    exp.Bracket, exp.Tuple, exp.Interval, exp.Case, exp.Identifier, exp.Var, exp.DataType, exp.Star, exp.Slice,
    exp.PropertyEQ, exp.Cast, exp.If,
)  # fmt: skip
_OPERATORS = (exp.Binary, exp.Unary, exp.Between, exp.In, exp.AtTimeZone, exp.Bracket, exp.RegexpLike, exp.Cast)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_NAMES: Mapping[type[exp.Expr], str] = {
    exp.Window: "OVER",
    exp.Subquery: "a subquery",
    exp.Select: "a subquery",
    exp.Exists: "EXISTS",
    exp.Lambda: "a lambda",
    exp.Star: "*",
    exp.Collate: "COLLATE",
    exp.Alias: "a name with AS",
    exp.JSONExtract: "->",
    exp.JSONExtractScalar: "->>",
    exp.JSONBExtract: "#>",
    exp.JSONBExtractScalar: "#>>",
    exp.Any: "ANY(…)",
    exp.All: "ALL(…)",
    exp.TableSample: "TABLESAMPLE",
}

#: What arguments of nodes are called in SQL, where that is not their name in the syntax tree.
_CLAUSES: Mapping[str, str] = {
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
    "symmetric": "BETWEEN SYMMETRIC",
    "joins": "JOIN",
    "laterals": "LATERAL",
    "kind": "SELECT AS",
    "operation_modifiers": "a word behind SELECT",
    "when": "AS OF",
    "with_": "WITH",
    "order": "ORDER BY",
    "group": "GROUP BY",
    "windows": "WINDOW",
    "connect": "CONNECT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "sort": "SORT BY",
    "locks": "FOR UPDATE",
    "match": "MATCH_RECOGNIZE",
    "prewhere": "PREWHERE",
    "hint": "a hint",
    "into": "INTO",
    "settings": "SETTINGS",
    "with_ordinality": "WITH ORDINALITY",
}
_CLOCK_NODES: Mapping[type[exp.Expr], str] = {
    exp.CurrentTimestamp: "current_timestamp",
    exp.CurrentDate: "current_date",
    exp.CurrentTime: "current_time",
    exp.Localtime: "localtime",
    exp.Localtimestamp: "localtimestamp",
}
_OUTSIDE_NODES = (exp.CurrentUser, exp.CurrentRole, exp.CurrentCatalog, exp.SessionUser)

Hook = Callable[[exp.Expr], "exp.Expr | None"]


def check_arguments(node: exp.Expr, allowed: Iterable[str], source: Source) -> None:
    """Refuse a node that carries an argument which is not listed."""
    for key, value in node.args.items():
        if key not in allowed and value not in (None, False) and value != []:
            if isinstance(value, exp.Query | exp.Subquery):
                raise refuse(value, source)
            raise source.error(f"{_clause(key)} is not available here", value if _is_node(value) else node)


def check_word(node: exp.Expr, source: Source) -> None:
    """Refuse a bare word (a unit of time, say), which is rendered as it is, unless it is one."""
    if isinstance(node, exp.Var) and not node.name.isidentifier():
        raise source.error(f"'{node.name}' is not expected here", node)


def _is_node(value: object) -> bool:
    return isinstance(value, exp.Expr)


def refuse(node: exp.Expr, source: Source) -> StatementError:
    """The error for a node that is not listed."""
    kind = type(node)
    if kind in _CLOCK_NODES:
        return source.error(f"{_CLOCK_NODES[kind]} is refused: {REFUSED['now']}", node)
    if isinstance(node, _OUTSIDE_NODES):
        return source.error(f"{node.key} is refused: {REFUSED['getenv']}", node)
    if kind is exp.Window:
        return source.error("functions with OVER are not available over a stream", node, "an aggregate with GROUP BY")
    if isinstance(node, exp.Query | exp.Subquery | exp.Exists):
        works = "a stream of what it lets pass, CREATE STREAM x AS SELECT ISTREAM(*) FROM s [NOW] WHERE …; or SEMI JOIN"
        return source.error("subqueries are not available over a stream", node, works)
    if kind in (exp.Placeholder, exp.Parameter):
        return source.error("no value was given for this parameter", node, "pond.sql(text, {'name': value})")
    return source.error(f"{_NAMES.get(kind) or _in_words(kind.__name__)} is not available here", node)


def _clause(key: str) -> str:
    """What an argument of a node is called in SQL."""
    return _CLAUSES.get(key) or key.strip("_").replace("_", " ").upper()


def _in_words(name: str) -> str:
    """The name of a node's class as SQL writes it: GROUPING SETS for GroupingSets."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).upper()


def function_name(node: exp.Expr) -> str:
    """The lower-case name of a call."""
    return node.name.lower() if isinstance(node, exp.Anonymous) else node.key


def unknown_function(node: exp.Expr, source: Source, known: Iterable[str]) -> StatementError:
    """The error for a function that is not in the allow-list."""
    name = function_name(node)
    place = own_span(node)
    if name in REFUSED:
        return source.error(f"function {name} is refused: {REFUSED[name]}", place)
    if name in WINDOW_FUNCTIONS:
        return source.error(f"function {name} needs OVER, which is not available over a stream", place)
    if name in _WINDOWED:
        return source.error(f"there is no function {name}: windows stand in FROM", place, _IN_BRACKETS)
    if name in RELATION_FUNCTIONS:
        message = f"function {name} is for relations: it is not available over windows that end, or rows of a stream"
        return source.error(message, place, _OVER_RELATIONS)
    return source.error(f"there is no function {name}", place, like=nearest(name, known))


class Resolver:
    """Rebuilds expressions with names resolved.

    Arguments:
        source: the text that errors point into.
        column: gives what stands for a column reference, or raises.
        call: gives what stands for an aggregate call (`Anonymous`, also inside FILTER or WITHIN GROUP), or raises.
        match: looks at every node first; what it gives stands for the whole node.
        kind: the declared type of a column; None when no column is an ENUM.
        type_of: the type of SQL that `text` gave; '' for one that DuckDB refuses.
    """

    def __init__(
        self,
        source: Source,
        column: Callable[[exp.Column], exp.Expr],
        call: Hook,
        match: Hook,
        kind: Kind | None = None,
        type_of: Callable[[str], str] = lambda sql: "",
    ) -> None:
        self.source, self.column, self.call, self.match, self.kind = source, column, call, match, kind
        self.type_of = type_of
        self.parameters: frozenset[str] = frozenset()

    def text(self, node: exp.Expr) -> str:
        """DuckDB SQL of an expression; StatementError if anything in it is not allowed."""
        return render(self.resolve(node).unnest(), copy=False)

    def expression(self, node: exp.Expr) -> Expression:
        """The expression with what it reads and calls; errors as of `text`."""
        return expression_of(self.resolve(node).unnest(), copy=False)

    def resolve(self, node: exp.Expr) -> exp.Expr:
        """The expression with resolved names, as a new tree."""
        if (found := self.match(node)) is not None:
            return found
        if isinstance(node, exp.Column):
            if isinstance(node.this, exp.Star):
                raise refuse(node.this, self.source)
            return self.column(node)
        if is_aggregate(node):
            found = self.call(node)
            assert found is not None
            return found
        if isinstance(node, exp.Identifier) and node.name.lower() in self.parameters:
            return exp.Identifier(this=node.name, quoted=True)
        if isinstance(node, exp.Lambda):
            return self.function_of(node)
        node = in_utc(node, lambda each: self.type_of(self.text(each)))
        if isinstance(node, exp.Anonymous):
            return self.function(node)
        if isinstance(node, exp.Cast):
            return self.cast(node)
        if isinstance(node, exp.ByteString | exp.RawString):
            return exp.Literal.string(node.name)
        if type(node) not in SCALAR_NODES:
            check_known(node, self.source)
            raise refuse(node, self.source)
        check_arguments(node, SCALAR_NODES[type(node)], self.source)
        if isinstance(node, _COMPARISONS) and isinstance(node.this, _COMPARISONS):
            raise self.source.error("comparisons cannot be chained", node, "AND between them, or parentheses")
        if isinstance(node, exp.Interval):
            return checked_interval(node, self.source, self.resolve)
        if isinstance(node, exp.Dot) and not isinstance(node.expression, exp.Identifier):
            raise self.source.error("a field is a name", node.expression)
        if isinstance(node, exp.Dot):
            return struct_field(self.resolve(node.this), node.expression.name)
        if isinstance(node, exp.PropertyEQ):
            name = exp.Identifier(this=node.this.name, quoted=True)
            return exp.PropertyEQ(this=name, expression=self.resolve(node.expression))
        check_word(node, self.source)
        if isinstance(node, exp.Var | exp.Literal):
            return type(node)(**node.args)  # a copy would carry places and comments
        return self.rebuild(node)

    def function_of(self, node: exp.Lambda) -> exp.Expr:
        """`lambda x: …`, within which its parameters are names."""
        around = self.parameters
        self.parameters = around | {each.name.lower() for each in node.expressions}
        try:
            value = self.resolve(node.this)
        finally:
            self.parameters = around
        names = [exp.Identifier(this=each.name, quoted=True) for each in node.expressions]
        return exp.Lambda(this=value, expressions=names)

    def rebuild(self, node: exp.Expr) -> exp.Expr:
        """The same node over resolved children, which get parentheses where they are operators themselves."""
        wrap = isinstance(node, _OPERATORS) and not isinstance(node, exp.Escape | exp.Paren)
        enum = enum_beside(node, self.kind) if self.kind is not None else None
        args: dict[str, object] = {}
        for key, value in node.args.items():
            if enum is not None and is_text(value):
                args[key] = self.enum_value(value, enum)
            elif isinstance(value, list):
                args[key] = [self.resolve(v) if isinstance(v, exp.Expr) else v for v in value]
            elif isinstance(value, exp.Expr):
                child = self.resolve(value)
                args[key] = exp.Paren(this=child) if wrap and not isinstance(child, _ATOMS) else child
            else:
                args[key] = value
        return type(node)(**args)

    def enum_value(self, literal: exp.Literal, enum: str) -> exp.Expr:
        """A text that is compared with an ENUM by order."""
        values = values_of(enum)
        if literal.name not in values:
            message = f"'{literal.name}' is not a value of {enum}, so it has no place in its order"
            raise self.source.error(message, literal, f"one of {', '.join(values)}", nearest(literal.name, values))
        return as_enum(literal, enum)

    def function(self, node: exp.Anonymous) -> exp.Expr:
        name = function_name(node)
        if isinstance(node, RegisteredCall) and name not in SCALARS:
            check_call(node, self.source)
            return exp.Anonymous(
                this=node.definition.reference, expressions=[self.resolve(e) for e in node.expressions]
            )
        if isinstance(node.this, exp.Identifier) or name not in SCALARS:
            raise unknown_function(node, self.source, [*SCALARS, *AGGREGATES])
        if name == "age" and len(node.expressions) < 2:
            raise self.source.error(f"age with one argument is refused: {REFUSED['now']}", own_span(node), "age(a, b)")
        for argument in node.expressions:
            if isinstance(argument, exp.Distinct | exp.Order):
                what = "DISTINCT" if isinstance(argument, exp.Distinct) else "ORDER BY"
                raise self.source.error(f"{what} is for aggregates, and {name} is none", argument)
        return exp.Anonymous(this=name, expressions=[self.resolve(e) for e in node.expressions])

    def cast(self, node: exp.Cast) -> exp.Expr:
        check_arguments(node, ("this", "to", "safe"), self.source)
        try:
            kind = type_sql(node.args["to"])
        except TypeRefused as refused:
            like = nearest(refused.name, NAMES) if refused.name else ""
            raise self.source.error(str(refused), node.args["to"], like=like) from None
        value = self.resolve(cast_in_utc(node.this, kind))
        return CheckedCast(this=value, kind=kind, safe=isinstance(node, exp.TryCast))


def checked_interval(node: exp.Interval, source: Source, resolve: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """An INTERVAL with its text and unit checked and written as DuckDB reads them."""
    expected = "INTERVAL '1 hour 30 minutes', INTERVAL 5 MINUTES or INTERVAL (n) DAYS"
    text, whole = str(node.args.get("text") or ""), bool(node.args.get("whole"))
    value, unit = node.this, node.args.get("unit")
    try:
        if whole:
            return exp.Interval(this=exp.Literal.string(interval_text(text)))
        if unit is None:
            raise ValueError("the interval has no unit")
        name = unit_name(unit.name)
        if isinstance(value, exp.Literal):
            return exp.Interval(this=exp.Literal.string(interval_text(f"{text or value.name} {name}")))
    except ValueError as fault:
        raise source.error(str(fault), node, expected) from None
    return exp.Interval(this=exp.Paren(this=resolve(value.unnest())), unit=exp.Var(this=name))


def called(node: exp.Expr) -> exp.Expr:
    """A call without FILTER, WITHIN GROUP and the window behind it."""
    while isinstance(node, exp.Filter | exp.WithinGroup | WindowedCall):
        node = node.this
    return node


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node is a call of an aggregate, with or without FILTER, WITHIN GROUP or a window."""
    node = called(node)
    return isinstance(node, exp.Anonymous) and not isinstance(node.this, exp.Identifier) and (
        function_name(node) in AGGREGATES
    )  # fmt: skip


def check_known(node: exp.Expr, source: Source) -> None:
    """Refuse a call, whatever stands behind it, of a function that queries over streams do not have."""
    call = called(node)
    if not isinstance(call, exp.Anonymous) or isinstance(call, RegisteredCall) or is_aggregate(call):
        return
    if function_name(call) not in SCALARS:
        raise unknown_function(call, source, [*SCALARS, *AGGREGATES])


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate is called anywhere below."""
    waiting = [node]
    while waiting:  # sqlglot's own walk costs several times as much
        each = waiting.pop()
        if isinstance(each, exp.Anonymous) and is_aggregate(each):
            return True
        for value in each.args.values():
            if isinstance(value, exp.Expr):
                waiting.append(value)
            elif isinstance(value, list):
                waiting.extend(v for v in value if isinstance(v, exp.Expr))
    return False


def grouped_by(group: exp.Group) -> list[exp.Expr]:
    """What GROUP BY names, one by one: `(a, b)` names a and b, and `()` nothing.

    >>> import sqlglot
    >>> [e.sql() for e in grouped_by(sqlglot.parse_one("SELECT 1 GROUP BY (), a, (b, (c + 1))").args["group"])]
    ['a', 'b', '(c + 1)']
    """
    waiting, found = list(group.expressions), []
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, exp.Tuple):
            waiting[:0] = node.expressions
        else:
            found.append(node)
    return found


def json_field(value: exp.Expr, field: str) -> exp.Expr:
    """Access to a field of a JSON object."""
    path = '$."' + field.replace('"', '\\"') + '"'
    return exp.Anonymous(this="json_extract", expressions=[value, exp.Literal.string(path)])


def struct_field(value: exp.Expr, field: str) -> exp.Expr:
    """Access to a field of a struct."""
    return exp.Anonymous(this="struct_extract", expressions=[value, exp.Literal.string(field)])


def column(name: str) -> exp.Column:
    """A quoted column without qualifier."""
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


def unqualified(node: exp.Expr, stream: StreamDefinition | None = None) -> exp.Expr:
    """The expression with plain column names, as they are declared if all are columns of one stream."""
    own = exp.Paren(this=node.copy())
    for each in list(own.find_all(exp.Column)):
        known = None if stream is None else stream.column(each.name)
        each.replace(column(each.name if known is None else known.name))
    found: exp.Expr = own.this
    return found
