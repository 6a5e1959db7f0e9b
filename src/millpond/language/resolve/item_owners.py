"""Which FROM item of a bound SELECT an expression is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from millpond.types import Column


class Owners:
    """Which FROM item an expression is about."""

    def __init__(self, items: Sequence[exp.Table], columns: Mapping[str, Sequence[Column]]) -> None:
        self.names = [i.alias_or_name.lower() for i in items]
        self.columns = [{c.name.lower() for c in columns[i.name]} for i in items]

    def of(self, node: exp.Expr) -> int | None:
        """The number of the only item whose columns an expression has; None: none, or several."""
        found = self.all_of(node)
        return found.pop() if found is not None and len(found) == 1 else None

    def all_of(self, node: exp.Expr) -> set[int] | None:
        """The numbers of the items whose columns an expression has; None where that is not known of a column."""
        found: set[int] = set()
        for each in node.find_all(exp.Column):
            if each.table:
                if len(each.parts) != 2:
                    return None
                owners = [n for n, name in enumerate(self.names) if name == each.parts[0].name.lower()]
            else:
                owners = [n for n, names in enumerate(self.columns) if each.name.lower() in names]
            if len(owners) != 1 or each.name.lower() not in self.columns[owners[0]]:
                return None
            found.add(owners[0])
        return found
