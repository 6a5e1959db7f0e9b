"""Values in SELECTs over relations: casts, intervals, registered functions, and texts beside ENUMs and times."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from millpond.language.builtins.allowed import RELATION_FUNCTIONS
from millpond.language.inference.column_types import NAMES, TypeRefused, type_sql
from millpond.language.inference.duck import Refused, typed_relation
from millpond.language.inference.enum_texts import ORDERED, as_enum, enum_beside, is_text, values_of
from millpond.language.inference.zoned import cast_in_utc, in_utc, utc_text
from millpond.language.render.rendering import render
from millpond.language.resolve.expressions import (
    checked_interval,
    function_name,
)
from millpond.language.resolve.relation_refs import RelationRef
from millpond.language.syntax.nodes import CheckedCast, RegisteredCall
from millpond.language.syntax.source_text import Source, nearest
from millpond.types import Column


def with_values(tree: exp.Expr, refs: Sequence[RelationRef], source: Source) -> exp.Expr:
    """The tree with casts and intervals checked, and with texts as what they are compared with."""
    return _texts_in_utc(_texts_as_enums(_checked(tree, source), refs), refs)


def _checked(tree: exp.Expr, source: Source) -> exp.Expr:
    """The tree with checked casts and intervals, and registered functions by what the engine calls them."""
    tree = tree.copy()
    for cast in list(tree.find_all(exp.Cast)):
        kind = _cast_type(cast, source)
        cast.replace(CheckedCast(this=cast_in_utc(cast.this, kind), kind=kind, safe=isinstance(cast, exp.TryCast)))
    for interval in list(tree.find_all(exp.Interval)):
        if not isinstance(interval.parent, exp.DataType):
            interval.replace(checked_interval(interval, source, lambda node: node))
    for call in tree.find_all(RegisteredCall):
        if function_name(call) not in RELATION_FUNCTIONS:
            call.set("this", call.definition.reference)
    return tree


def _cast_type(cast: exp.Cast, source: Source) -> str:
    try:
        return type_sql(cast.args["to"])
    except TypeRefused as refused:
        like = nearest(refused.name, NAMES) if refused.name else ""
        raise source.error(str(refused), cast.args["to"], like=like) from None


def _texts_as_enums(tree: exp.Expr, refs: Sequence[RelationRef]) -> exp.Expr:
    """The tree with texts beside ENUM columns as values of these; names that stand for several ENUMs are left alone."""
    kinds: dict[str, set[str]] = {}
    for each in (c for ref in refs for c in ref.columns if "ENUM(" in c.type):
        kinds.setdefault(each.name.lower(), set()).add(each.type)
    if not kinds:
        return tree
    known = {name: next(iter(found)) for name, found in kinds.items() if len(found) == 1}
    for node in list(tree.find_all(*ORDERED)):
        enum = enum_beside(node, lambda node: known.get(node.name.lower()))
        for value in list(node.args.values()):
            # should the name mean something else here, a text and an ENUM are compared as texts all the same
            if enum is not None and is_text(value) and value.name in values_of(enum):
                value.replace(as_enum(value, enum))
    return tree


def _texts_in_utc(tree: exp.Expr, refs: Sequence[RelationRef]) -> exp.Expr:
    """The tree with texts with an offset beside TIMESTAMPs as their instant; names of several types are left alone."""
    kinds: dict[str, set[str]] = {}
    for each in (c for ref in refs for c in ref.columns):
        kinds.setdefault(each.name.lower(), set()).add(each.type)
    columns = [Column(name, next(iter(found))) for name, found in kinds.items() if len(found) == 1]

    def kind(node: exp.Expr) -> str:
        plain = node.copy()
        for name in plain.find_all(exp.Column):
            name.set("table", None)
        try:
            return typed_relation(columns).types([render(plain)])[0]
        except Refused:
            return ""

    for literal in [each for each in tree.find_all(exp.Literal) if is_text(each) and utc_text(each.name) is not None]:
        node = literal.parent
        while isinstance(node, exp.Paren | exp.If):
            node = node.parent
        if node is not None and (found := in_utc(node, kind)) is not node:
            node.replace(found)
    return tree
