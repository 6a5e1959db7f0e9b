"""The passes of the language as functions from a text to a text, for cases of two lines (`cases/*.txt`).

    SELECT a.x FROM a JOIN b USING (k)
    -> SELECT …

A file is called like the pass that its cases go through. What a pass refuses is shown as `! message`.
`python -m tests.language.passes` writes the outputs anew: to be read before they are believed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sqlglot import exp

from millpond.language import TableQuery, bind_select, bind_standing, parse
from millpond.language.check import joins_written, products, relation_nodes
from millpond.language.conditions.axes import ConstantFault
from millpond.language.conditions.conjuncts import conjuncts
from millpond.language.conditions.factors import FactorReader, boxes_of
from millpond.language.inference.column_types import TypeRefused, canonical
from millpond.language.plan.table_queries import bound_tree
from millpond.language.render.rendering import render
from millpond.language.resolve.relation_refs import RelationRef
from millpond.language.resolve.scope import RowScope
from millpond.language.resolve.stream_items import InputStream, StreamItems
from millpond.language.rewrite.pushed_conditions import push_down
from millpond.language.rewrite.spelt_joins import spelt_out
from millpond.language.rewrite.typed_inputs import typed_inputs
from millpond.language.rewrite.unnamed_streams import split
from millpond.language.rewrite.validity import hold_in_time
from millpond.language.rewrite.weights import weighed
from millpond.language.syntax.nodes import Suffix, WindowedCall, suffix_of, to_stream_of
from millpond.language.syntax.statement_types import Select
from millpond.language.syntax.written_select import WrittenSelect
from millpond.support.errors import StatementError
from millpond.types import (
    Driven,
    GroupArgument,
    Grouped,
    GroupScan,
    Joined,
    PairsQuery,
    QueryDefinition,
    Recomputed,
    RelationQuery,
    RowQuery,
    RowScan,
    RowWindowQuery,
    Staged,
    StreamDefinition,
    TableDefinition,
    WindowQuery,
)
from millpond.types.relation_queries import SaltedBy, Salting
from millpond.types.selections import Edge

CASES = Path(__file__).with_name("cases")

_DECLARED = """
CREATE STREAM s (ts TIMESTAMP, k INTEGER, v DOUBLE, name VARCHAR, level ENUM('low', 'high'), at STRUCT(x INTEGER),
                 tags INTEGER[], d DATE, p DECIMAL(10, 2), ok BOOLEAN, z TIMESTAMPTZ, "Odd Name" INTEGER)
  WITH (event_time = 'ts');
CREATE STREAM a (ts TIMESTAMP, k INTEGER, x INTEGER) WITH (lateness = '5s');
CREATE STREAM b (ts TIMESTAMP, k INTEGER, y INTEGER) WITH (lateness = '5s');
CREATE STREAM c (ts TIMESTAMP, k INTEGER, n INTEGER) WITH (lateness = '5s');
CREATE TABLE t (k INTEGER, label VARCHAR) WITH (path = 't.csv');
CREATE TABLE price (k INTEGER, amount DOUBLE, since TIMESTAMP, until TIMESTAMP)
  WITH (path = 'price.csv', valid_from = 'since', valid_to = 'until');
CREATE QUERY q AS SELECT k, count(*) AS n FROM s [RANGE 5 MINUTES SLIDE 1 MINUTE] GROUP BY k;
"""


class Declared:
    """What the cases are about."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        for each in parse(_DECLARED):
            if hasattr(each, "definition"):
                self.known[each.definition.name] = each.definition
            else:
                self.known[each.name] = QueryDefinition(each.name, bind_standing(each.select, self), each.options)  # type: ignore[attr-defined,arg-type]  # CREATE QUERY

    def lookup(self, name: str) -> StreamDefinition | TableDefinition | QueryDefinition | None:
        return self.known.get(name.lower())

    def names(self) -> list[str]:
        return list(self.known)

    def missing(self, name: str) -> str:
        return ""

    def by_time(self, stream: StreamDefinition, column: str) -> None:
        return None

    def reductions(self) -> list[str]:
        return []

    def window_kinds(self) -> dict[str, tuple[str, int]]:
        return {"months": ("months", 31 * 86_400_000_000)}

    def functions(self) -> dict[str, Any]:
        return {}


_SCHEMA = Declared()


# -- texts ----------------------------------------------------------------------------------------------------


def _select(text: str) -> WrittenSelect:
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    return statement.select


def _fields(value: Any) -> str:
    """The fields of a record that are not as they would be anyway; places are left out."""
    shown = []
    for field in dataclasses.fields(value):
        found = getattr(value, field.name)
        if "place" in field.name or found == field.default:
            continue
        if dataclasses.is_dataclass(found) and not isinstance(found, Edge):
            found = f"({_fields(found)})"
        shown.append(f"{field.name}={found}")
    return " ".join(shown)


def _shown(node: exp.Expr) -> str:
    """A tree as SQL, and behind it what sqlglot does not know of."""
    parts = [render(node)]
    for each in node.walk(bfs=False):
        if (made := to_stream_of(each)) is not None:
            parts.append(made.word)
        if isinstance(each, WindowedCall):
            parts.append(f"{render(each.this)}: window {_fields(each.window)}")
        elif suffix_of(each) != Suffix():
            parts.append(f"{each.alias_or_name or 'FROM'}: {_suffix(suffix_of(each))}")
    return " | ".join(parts)


def _suffix(suffix: Suffix) -> str:
    said = []
    if suffix.window is not None:
        said.append(f"window {_fields(suffix.window)}")
    if suffix.reduce is not None:
        said.append(f"reduce {_fields(suffix.reduce.reduction)}")
    if suffix.union:
        said.append(f"union with {', '.join(t.name for t in suffix.union)}")
    said += [word for word, place in (("revisions", suffix.revisions), ("final", suffix.final)) if place is not None]
    return ", ".join(said)


class _Bound:
    """A SELECT over streams and tables, bound."""

    def __init__(self, text: str) -> None:
        self.written = _select(text)
        self.source = self.written.source
        self.items = StreamItems(self.written.tree, frozenset({"ts"}), False, self.source, _SCHEMA)
        self.tree, self.refs = bound_tree(self.written.tree, self.source, _SCHEMA, self.items.bind)
        self.columns = {r.alias: r.columns for r in self.refs}

    @property
    def inputs(self) -> dict[str, InputStream]:
        return self.items.inputs


def _salted(salting: Salting) -> str:
    return salting.column if isinstance(salting, SaltedBy) else "copies" if salting.copied else "-"


def _ref(ref: RelationRef) -> str:
    kind = type(ref).__name__.removesuffix("Input").lower()
    return f"{ref.alias}: {kind} {ref.name}({', '.join(c.name for c in ref.columns)})"


# -- passes ---------------------------------------------------------------------------------------------------


def _window(text: str) -> str:
    clause = suffix_of(_select(f"SELECT * FROM s {text}").tree.args["from_"].this).window
    assert clause is not None
    return _fields(clause)


def _reduce(text: str) -> str:
    clause = suffix_of(_select(f"SELECT * FROM s {text}").tree.args["from_"].this).reduce
    assert clause is not None
    return _fields(clause.reduction)


def _bounds(text: str) -> str:
    found = _select(f"SELECT * FROM s {text}").bounds
    return "; ".join(f"{f'{c.alias}: ' if c.alias else ''}{_fields(c.span)}".strip() for c in found)


def _condition(text: str) -> exp.Expr:
    written = _select(f"SELECT 1 FROM s WHERE {text}")
    rows = RowScope(written.source, _SCHEMA.known["s"], "s")
    return rows.resolver.resolve(written.tree.args["where"].this)


def _expression(text: str) -> str:
    written = _select(f"SELECT {text} FROM s")
    rows = RowScope(written.source, _SCHEMA.known["s"], "s")
    return rows.text(written.tree.expressions[0].unalias())


def _inferred(text: str) -> str:
    bound = bind_select(_select(f"SELECT {text} AS x FROM s"), _SCHEMA)
    assert isinstance(bound, RowScan | GroupScan)
    return bound.select[0].type


def _column_type(text: str) -> str:
    written = _select(f"SELECT CAST(NULL AS {text})")
    try:
        return canonical(written.tree.expressions[0].args["to"])
    except TypeRefused as refused:
        return f"! {refused}"


def _boxes(text: str) -> str:
    reader = FactorReader(lambda node, sql: _type_of(sql))
    factors = [f for f in (reader.read(node, no) for node, no in conjuncts(_condition(text))) if f is not None]
    boxes = boxes_of(factors)
    return " or ".join(" and ".join(_interval(i) for i in box) or "all" for box in boxes) or "none"


def _interval(found: Any) -> str:
    if found.null:
        return f"{found.attribute} null"
    low = f"{'[' if found.low_closed else '('}{'' if found.low is None else found.low}"
    return f"{found.attribute} in {low}, {'' if found.high is None else found.high}{']' if found.high_closed else ')'}"


def _type_of(sql: str) -> str:
    written = _select("SELECT 1 FROM s")
    return RowScope(written.source, _SCHEMA.known["s"], "s").type_of(sql)


def _grouping(text: str) -> str:
    bound = bind_select(_select(text), _SCHEMA)
    assert isinstance(bound, WindowQuery | RowWindowQuery | GroupScan)
    keys = [f"{k.name} = {k.expression} {k.type}" for k in bound.keys]
    calls = [f"{a.name} = {_call(a)} {a.type}" for a in bound.aggregates]
    outputs = [f"{o.name} = {o.expression} {o.type}" for o in bound.select]
    order = [t.sql for t in bound.order_by]
    return " | ".join(", ".join(part) for part in (keys, calls, outputs, order) if part)


def _call(found: Any) -> str:
    inside = ", ".join([*map(str, found.arguments), *found.parameters])
    order = f" ORDER BY {', '.join(t.sql for t in found.order)}" if found.order else ""
    filtered = f" FILTER {found.filter}" if found.filter else ""
    return f"{found.function}({'DISTINCT ' if found.distinct else ''}{inside}{order}){filtered}"


def _relations(text: str) -> str:
    bound = _Bound(text)
    return " | ".join([render(bound.tree), *map(_ref, bound.refs)])


def _checked(check: Callable[[_Bound], None]) -> Callable[[str], str]:
    def run(text: str) -> str:
        check(_Bound(text))
        return "fine"

    return run


def _nodes(text: str) -> str:
    written = _select(text)
    relation_nodes.check_nodes(written.tree, written.source)
    return "fine"


def _joins(text: str) -> str:
    written = _select(text)
    joins_written.check_joins(written.tree, written.source)
    joins_written.check_conditions(written.tree, written.source)
    return "fine"


def _spelt(text: str) -> str:
    bound = _Bound(text)
    found = spelt_out(bound.tree, bound.columns)
    return "nothing" if found is None else render(found)


def _valid(text: str) -> str:
    written = _select(text)
    return render(hold_in_time(written.tree, written.source, _SCHEMA))


def _weights(text: str) -> str:
    bound = _Bound(text)
    reduced = {a: i.reduced for a, i in bound.inputs.items() if i.reduced is not None}
    return render(weighed(bound.tree, reduced, bound.source))


def _unnamed(text: str) -> str:
    found = split(_select(text), _SCHEMA)
    if found is None:
        return "nothing"
    return " | ".join([*(f"{s.name}: {_shown(s.select)}" for s in found.streams), _shown(found.select)])


def _pushed(text: str) -> str:
    bound = _Bound(text)
    found = push_down(bound.tree, bound.inputs, bound.written.tree, bound.source)
    below = [f"{alias} below: {' AND '.join(map(str, each))}" for alias, each in found.below.items()]
    return " | ".join([render(found.tree), *below])


def _typed(text: str) -> str:
    bound = _Bound(text)
    return render(typed_inputs(bound.tree, bound.inputs, "i"))


def _plan(text: str) -> str:
    bound = bind_select(_select(text), _SCHEMA)
    match bound:
        case Staged(query, inner):
            return f"Staged({', '.join(f'{i.name}: {_kind(i.query)}' for i in inner)}; {_kind(query)})"
        case _:
            return _kind(bound)


def _kind(query: Any) -> str:
    name = type(query).__name__
    match query:
        case WindowQuery(window=window) | RowWindowQuery(window=window):
            return f"{name} over {type(window).__name__} {_fields(window)}"
        case RelationQuery(plan=Joined(join=join) | Grouped(join=join) as plan):
            spread = "spread by " + ", ".join(str(s or "nothing") for s in join.spread) if join.spread else "together"
            return f"{name} {query.operator} {type(plan).__name__} {join.kind} of {len(join.items)}, {spread}"
        case RelationQuery(plan=Driven(driver=driver, probes=probes)):
            return f"{name} {query.operator} Driven by {driver}, probes {', '.join(p.alias for p in probes)}"
        case RelationQuery(plan=Recomputed(reason=reason)):
            return f"{name} {query.operator} Recomputed {reason}".rstrip()
        case RelationQuery(plan=plan):
            return f"{name} {query.operator} {type(plan).__name__}"
        case PairsQuery(join=join):
            return f"{name} {join.kind} of {', '.join(type(w).__name__ for w in query.windows)}"
        case RowQuery(sides=sides, factors=joins):
            said = "".join(f" by {join.left} {join.operator} {join.right}" for join in joins)
            return f"{name} of {' and '.join(f'{s.stream} where {s.where}' for s in sides)}{said}"
        case TableQuery(sql=sql):
            return f"{name} {sql}"
        case _:
            return f"{name} where {query.where}"


def _spreading(text: str) -> str:
    """By what rows are spread, how those of frequent keys are salted, and by what some could be spread."""
    bound = bind_select(_select(text), _SCHEMA)
    assert isinstance(bound, RelationQuery) and bound.joined is not None
    join = bound.joined
    parts = [f"by {each}" if each is not None else "a table" for each in join.spread]
    kinds = {each.type for each in join.spread if each is not None}
    shown = [", ".join(parts) + f" ({', '.join(sorted(kinds))})"] if parts else ["together"]
    shown += [f"salting {', '.join(map(_salted, join.salting))}"] if join.salting else []
    shown += [f"hashes {', '.join(map(str, each))}" for each in join.hashes]
    return " | ".join(shown)


def _argument(argument: GroupArgument) -> str:
    return f"{type(argument).__name__.removesuffix('Argument').lower()}{getattr(argument, 'digits', '')}"


def _grouped(text: str) -> str:
    """Keys, arguments, outputs and place of aggregates over a join, or why they do not follow from its rows."""
    bound = bind_select(_select(text), _SCHEMA)
    assert isinstance(bound, RelationQuery)
    match bound.plan:
        case Grouped(grouping=found):
            arguments = ", ".join(map(_argument, found.arguments))
            parts = [", ".join(found.keys), arguments, ", ".join(found.select), found.having or "", found.placed]
            return " | ".join(part or "-" for part in parts)
        case Recomputed(reason=reason):
            return f"recomputed: {reason}"
        case plan:
            return type(plan).__name__


def _probed(text: str) -> str:
    """What is asked of inputs of which only rows matter that meet the driver's."""
    bound = bind_select(_select(text), _SCHEMA)
    assert isinstance(bound, RelationQuery)
    return " | ".join(f"{p.alias}: {p.condition}; may {p.may}" for p in bound.probes) or "nothing"


def _fidelity(text: str) -> str:
    """The columns of an answer from a part of the rows, and what its aggregates measure."""
    bound = bind_select(_select(text), _SCHEMA)
    assert isinstance(bound, WindowQuery | GroupScan | RowScan)
    measures = [f"{a.name} {a.measure or 'exact'} of {a.function}" for a in bound.aggregates]
    return " | ".join([", ".join(f"{o.name} = {o.expression} {o.type}" for o in bound.select), *measures])


PASSES: dict[str, Callable[[str], str]] = {
    "syntax.window_clause": _window,
    "syntax.reduce_clause": _reduce,
    "syntax.bounds_clause": _bounds,
    "syntax.dialect": lambda text: _shown(_select(text).tree),
    "render": lambda text: render(_select(f"SELECT {text}").tree.expressions[0]),
    "inference.column_types": _column_type,
    "inference.types_of": _inferred,
    "resolve.expressions": _expression,
    "resolve.grouping": _grouping,
    "resolve.relation_refs": _relations,
    "conditions.conjuncts": lambda text: " | ".join(
        f"{'NOT ' * no}{render(node)}" for node, no in conjuncts(_condition(text))
    ),
    "conditions.factors": _boxes,
    "check.relation_nodes": _nodes,
    "check.joins_written": _joins,
    "check.joined_types": _checked(lambda b: joins_written.check_types(b.tree, b.columns, b.source)),
    "check.products": _checked(
        lambda b: products.check_products(spelt_out(b.tree, b.columns), b.written.tree, b.columns, b.source)
    ),
    "rewrite.spelt_joins": _spelt,
    "rewrite.validity": _valid,
    "rewrite.weights": _weights,
    "rewrite.unnamed_streams": _unnamed,
    "rewrite.pushed_conditions": _pushed,
    "rewrite.typed_inputs": _typed,
    "rewrite.fidelity_columns": _fidelity,
    "plan": _plan,
    "plan.spreading": _spreading,
    "plan.grouped_joins": _grouped,
    "plan.probed_inputs": _probed,
}


def outcome(name: str, text: str) -> str:
    """What a pass makes of a text, or why it refuses it."""
    try:
        return PASSES[name](text)
    except ConstantFault as fault:
        return f"! {fault}"
    except StatementError as error:
        return f"! {error.message}"


def cases(name: str) -> Iterator[tuple[int, str, str]]:
    """The cases of a pass: the line of each, its input, and its output."""
    text = ""
    for number, line in enumerate((CASES / f"{name}.txt").read_text().splitlines(), 1):
        if line.startswith("-> "):
            yield number - 1, text, line.removeprefix("-> ")
        text = line


def main() -> None:
    """Write the outputs of all cases."""
    for name in PASSES:
        path = CASES / f"{name}.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        inputs = [line for line in lines if not line.startswith("-> ")]
        written = []
        for line in inputs:
            written.append(line)
            if line and not line.startswith("#"):
                written.append(f"-> {outcome(name, line)}")
        path.write_text("\n".join(written) + "\n")


if __name__ == "__main__":
    main()
