"""Plans as data: what EXPLAIN says is a tree of these nodes, which is printed in one way and is JSON on the wire.

>>> inner = PlanNode("stores", "store 7", (Fact("rows", "3 rows"),))
>>> PlanNode("relation", "CQL query", (Fact("plan", "joined"), said("order", "as written")), (inner,))
CQL query
plan: joined
as written
store 7
  rows: 3 rows
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa

from millpond.support.errors import QueryError
from millpond.types.json_records import from_json, to_json

#: What may hold a semicolon that ends no statement: texts, quoted names, comments.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)

#: Under which key the metadata of a table of lines have the plan itself.
_METADATA = b"millpond.plan"


@dataclass(frozen=True)
class Fact:
    """One thing that a plan says.

    Attributes:
        name: of what it is about; a node may say several things of one name.
        value: a phrase, or a sentence.
        sentence: it is a sentence, which is printed without the name.
    """

    name: str
    value: str
    sentence: bool = False

    def __str__(self) -> str:
        return self.value if self.sentence else f"{self.name}: {self.value}"


def said(name: str, sentence: str) -> Fact:
    """A fact that is a sentence."""
    return Fact(name, sentence, True)


@dataclass(frozen=True, repr=False)
class PlanNode:
    """One part of a plan. Printed, it is the tree under it.

    Attributes:
        operator: what it is: a kind of operator (`panes`, `relation`, …), or another part of an answer.
        title: the same in words, and which one it is.
        facts: what there is to say of it, in order.
        children: what it is made of.
    """

    operator: str
    title: str
    facts: tuple[Fact, ...] = ()
    children: tuple[PlanNode, ...] = ()

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The tree as lines: a node's facts and children stand below its title, those of a child indented."""
        return [self.title, *self._block("")]

    def _block(self, indent: str) -> Iterator[str]:
        yield from (f"{indent}{fact}" for fact in self.facts)
        for child in self.children:
            yield f"{indent}{child.title}"
            yield from child._block(indent + "  ")

    def nodes(self) -> Iterator[PlanNode]:
        """The node and all below it, each before its children."""
        yield self
        for child in self.children:
            yield from child.nodes()

    def value(self, name: str) -> str | None:
        """What it says first of a name; None: nothing.

        >>> PlanNode("panes", "query", (Fact("keys", "sensor"),)).value("keys")
        'sensor'
        """
        return next((fact.value for fact in self.facts if fact.name == name), None)

    def with_more(self, facts: tuple[Fact, ...] = (), children: tuple[PlanNode, ...] = ()) -> Self:
        """The same node, with more behind what it says."""
        return replace(self, facts=self.facts + facts, children=self.children + children)

    def reworded(self, change: Callable[[str], str]) -> PlanNode:
        """The same tree with all its texts changed."""
        facts = tuple(replace(fact, value=change(fact.value)) for fact in self.facts)
        return PlanNode(self.operator, change(self.title), facts, tuple(c.reworded(change) for c in self.children))

    def to_dict(self) -> dict[str, Any]:
        """The tree as JSON has it: `operator`, `title`, `facts` (`name`, `value`, `sentence`), `children`."""
        found: dict[str, Any] = to_json(self)
        return found

    @staticmethod
    def from_dict(found: dict[str, Any]) -> PlanNode:
        """The tree from what `to_dict` gave.

        >>> PlanNode.from_dict(PlanNode("rows", "query", (Fact("shards", "by partition"),)).to_dict())
        query
        shards: by partition
        """
        return from_json(PlanNode, found)


def explain_statement(query: str, analyze: bool) -> str:
    """The statement that asks for a plan. Raises: QueryError where the query goes on with another statement.

    >>> explain_statement("SELECT ';' FROM s;", True)
    "EXPLAIN ANALYZE SELECT ';' FROM s"
    """
    query = query.strip().rstrip(";").rstrip()
    if ";" in _QUOTED.sub("", query):
        raise QueryError("one query is explained at a time; leave out what follows its ';'")
    return f"EXPLAIN {'ANALYZE ' if analyze else ''}{query}"


def plan_table(plan: PlanNode) -> pa.Table:
    """The lines of a plan as a table of one column, whose metadata have the plan."""
    schema = pa.schema([("plan", pa.string())], {_METADATA: json.dumps(plan.to_dict()).encode()})
    return pa.table({"plan": plan.lines()}, schema)


def plan_in(table: pa.Table) -> PlanNode | None:
    """The plan that a table has the lines of; None: it has none.

    >>> plan_in(plan_table(PlanNode("rows", "query"))).title
    'query'
    >>> plan_in(pa.table({"n": [1]})) is None
    True
    """
    found = (table.schema.metadata or {}).get(_METADATA)
    return None if found is None else PlanNode.from_dict(json.loads(found))
