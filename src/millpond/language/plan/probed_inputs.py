"""Which queries of CQL look up the past for each row that comes, instead of keeping all of it at hand.

    FROM passing [NOW] n JOIN passing [RANGE 8 DAYS] h ON h.plate = n.plate AND hour(h.ts) = hour(n.ts) …

Where nothing is in `n`, the answer is empty; and a row of `h` that no row of `n` meets in the conditions that join them
has no part in it. So the instants to look at are those of `n`, and of `h` only rows are needed that its conditions
admit: the *driver* is `n`, and `h` is *probed*, by scans of the archive that conditions on time prune. Without such
conditions each look would read all of `h`, so that it is better kept at hand.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from millpond.language.builtins.allowed import RELATION_AGGREGATES
from millpond.language.conditions.conjuncts import conjuncts
from millpond.language.plan.time_bounds import Bounds, Pruner
from millpond.language.render.rendering import render
from millpond.language.resolve.expressions import grouped_by
from millpond.types import DAY, LatestRowsWindow, Probe, RangeWindow, RelationWindow, StreamDefinition

#: Windows shorter than that are kept at hand: their rows are few against what looking them up costs.
LONG = DAY

#: What the two sides are called in conditions.
DRIVER, PROBED = "driver", "probed"

_TIMES = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")


def probes_of(
    tree: exp.Expr, streams: Mapping[str, StreamDefinition], windows: Mapping[str, RelationWindow]
) -> tuple[str, tuple[Probe, ...]] | None:
    """The driver of a query, and what it probes; None when it has no driver, or another input needs all rows.

    Arguments:
        tree: as `relations.bound_tree` gives it. streams, windows: by generated name of the FROM item.
    """
    if not isinstance(tree, exp.Select) or tree.args.get("with_") or tree.args.get("from_") is None:
        return None
    driver = _driver(tree, windows)
    if driver is None or _answers_nothing(tree):
        return None
    found = []
    for table in tree.find_all(exp.Table):
        if table.name not in streams or table is driver:
            continue
        probe, window = _Scope(tree, driver, table, streams).probe(), windows[table.name]
        if probe is None or probe.may is None or isinstance(window, LatestRowsWindow):
            return None
        if window.reach is not None and window.reach < LONG:
            return None
        found.append(probe)
    return (driver.name, tuple(found)) if found else None


def _driver(root: exp.Select, windows: Mapping[str, RelationWindow]) -> exp.Table | None:
    """The FROM item without which there is no answer, and that is there for an instant only."""
    joins = root.args.get("joins") or []
    if any(j.method or j.args.get("using") or j.kind not in ("", "INNER", "CROSS", "OUTER") for j in joins):
        return None
    if any(j.side not in ("", "LEFT") for j in joins):
        return None
    items = [root.args["from_"].this, *(j.this for j in joins if not j.side)]
    for item in items:
        window = windows.get(item.name) if isinstance(item, exp.Table) else None
        if window == RangeWindow(0):
            return item if isinstance(item, exp.Table) else None
    return None


def _answers_nothing(root: exp.Select) -> bool:
    """Whether a query has an answer where nothing is in its FROM: an aggregate over no rows."""
    group = root.args.get("group")
    if group is not None:
        return not grouped_by(group) or any(group.args.get(k) for k in ("cube", "rollup", "grouping_sets"))
    waiting: list[exp.Expr] = [*root.expressions, *([root.args["having"]] if root.args.get("having") else [])]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Window):  # an aggregate OVER rows has as many answers as there are rows
            waiting += [e for e in node.this.iter_expressions()]
            continue
        if isinstance(node, exp.AggFunc) or (
            isinstance(node, exp.Anonymous) and str(node.this).lower() in RELATION_AGGREGATES
        ):
            return True
        if not isinstance(node, exp.Query):
            waiting += list(node.iter_expressions())
    return False


class _Scope:
    """The SELECT that a probed item stands in, and the conditions on it there."""

    def __init__(
        self, root: exp.Select, driver: exp.Table, item: exp.Table, streams: Mapping[str, StreamDefinition]
    ) -> None:
        self.root, self.driver, self.item, self.streams = root, driver, item, streams
        self.known, self.sought = streams[driver.name], streams[item.name]

    def probe(self) -> Probe | None:
        """What is asked of the item; None when all of its rows may matter."""
        clause = self.item.parent
        scope = clause.parent if clause is not None else None
        if not isinstance(clause, exp.From | exp.Join) or not isinstance(scope, exp.Select):
            return None
        nodes = self.conditions(scope, clause)
        if nodes is None or (scope is not self.root and not self.sees_driver(scope)):
            return None
        written, pruned, joined = [], [], False
        times = {
            f'"{PROBED}"."{self.sought.options.time}"': self.bounds("h", self.sought),
            f'"{DRIVER}"."{self.known.options.time}"': self.bounds("d", self.known),
        }
        pruner = Pruner({name: bounds for name, bounds in times.items() if bounds is not None})
        for node, negated in nodes:
            own = self.resolved(node, scope)
            if own is None:
                continue
            sides = {c.table for c in own.find_all(exp.Column)}
            joined = joined or sides == {DRIVER, PROBED}
            written.append(f"NOT ({render(own)})" if negated else f"({render(own)})")
            if (may := pruner.may(own, negated)) is not None:
                pruned.append(f"({may})")
        if not joined:
            return None
        return Probe(self.item.name, " AND ".join(written), " AND ".join(pruned) or None, self.known.options.time)

    def conditions(self, scope: exp.Select, clause: exp.Expr) -> list[tuple[exp.Expr, bool]] | None:
        """Conditions without which a row of the item has no part in what the SELECT gives."""
        joins = scope.args.get("joins") or []
        if isinstance(clause, exp.Join) and clause.side == "LEFT" and scope is self.root:
            return conjuncts(clause.args["on"]) if clause.args.get("on") is not None else None
        if isinstance(clause, exp.Join) and clause.side:
            return None
        if any(j.method or j.args.get("using") for j in joins):
            return None
        if isinstance(clause, exp.From) and any(j.side not in ("", "LEFT") for j in joins):
            return None
        if scope is not self.root and any(j.side for j in joins):
            return None
        found = [pair for j in joins if not j.side and j.args.get("on") is not None for pair in conjuncts(j.args["on"])]
        if (where := scope.args.get("where")) is not None:
            found += conjuncts(where.this)
        return found

    def sees_driver(self, scope: exp.Select) -> bool:
        """Whether the name of the driver means the driver in a subquery: no item between hides it."""
        name = self.driver.alias_or_name.lower()
        node: exp.Expr | None = scope
        while node is not None and node is not self.root:
            if isinstance(node, exp.Select) and any(i.alias_or_name.lower() == name for i in _items(node)):
                return False
            if isinstance(node, exp.From | exp.Join):
                return False  # a derived table is worked out by itself
            node = node.parent
        return node is self.root

    def resolved(self, node: exp.Expr, scope: exp.Select) -> exp.Expr | None:
        """A condition over the columns of the two sides; None when it is about anything else."""
        if node.find(exp.Query, exp.Window) is not None:
            return None
        own = node.copy()
        holder = exp.Paren(this=own)
        for each in list(holder.find_all(exp.Column)):
            side = self.side_of(each, scope)
            if side is None:
                return None
            stream = self.known if side == DRIVER else self.sought
            found = stream.column(each.name)
            if found is None:
                return None
            each.replace(
                exp.Column(
                    this=exp.Identifier(this=found.name, quoted=True), table=exp.Identifier(this=side, quoted=True)
                )
            )
        resolved: exp.Expr = holder.this
        return resolved

    def side_of(self, each: exp.Column, scope: exp.Select) -> str | None:
        if each.table and len(each.parts) == 2:
            name = each.table.lower()
            if name == self.item.alias_or_name.lower():
                return PROBED
            return DRIVER if name == self.driver.alias_or_name.lower() else None
        owners = []
        for item in _items(scope):
            stream = self.streams.get(item.name) if isinstance(item, exp.Table) else None
            if stream is None or item.args["alias"].args.get("columns"):
                return None
            if stream.column(each.name) is not None:
                owners.append(item)
        if len(owners) != 1 or each.table:
            return None
        return PROBED if owners[0] is self.item else DRIVER if owners[0] is self.driver else None

    @staticmethod
    def bounds(name: str, stream: StreamDefinition) -> Bounds | None:
        column = stream.column(stream.options.time)
        if column is None or column.type not in _TIMES:
            return None
        return Bounds(f"CAST({name}_lo AS {column.type})", f"CAST({name}_hi AS {column.type})")


def _items(select: exp.Select) -> list[exp.Expr]:
    clause = select.args.get("from_")
    return [*([clause.this] if clause is not None else []), *(j.this for j in select.args.get("joins") or [])]
