"""What names mean inside a query over a stream: columns of rows, keys, aggregates, aliases."""

from __future__ import annotations

from sqlglot import exp

from millpond.language.inference.duck import Refused, typed_relation
from millpond.language.resolve.expressions import Resolver, column, json_field, struct_field
from millpond.language.syntax.source_text import Source, nearest
from millpond.types import Column, Expression, StreamDefinition

WINDOW_COLUMNS = ("window_start", "window_end")


class RowScope:
    """Names at the level of rows: the stream's columns, also with the stream's name or alias before them."""

    def __init__(self, source: Source, stream: StreamDefinition, alias: str) -> None:
        self.source, self.stream, self.alias = source, stream, alias
        self.columns: dict[str, Column] = {c.name.lower(): c for c in stream.all_columns}
        self.aliases: dict[str, exp.Expr] = {}
        self._open: list[str] = []
        self.aggregates_refused = "an aggregate cannot stand here"
        self.kind = self._kind if any("ENUM(" in c.type for c in self.columns.values()) else None
        self.resolver = Resolver(source, self._column, self._no_aggregate, lambda node: None, self.kind, self.type_of)

    def split(self, node: exp.Column) -> tuple[exp.Identifier, list[exp.Identifier]]:
        """The part that names the column, and the fields of a struct behind it."""
        parts = [p for p in node.parts if isinstance(p, exp.Identifier)]
        if len(parts) > 1 and parts[0].name.lower() in (self.alias.lower(), self.stream.name.lower()):
            qualifies = self.alias.lower() == parts[0].name.lower() or parts[0].name.lower() not in self.columns
            if qualifies:
                return parts[1], parts[2:]
        if len(parts) > 1 and parts[0].name.lower() not in self.columns:
            like = nearest(parts[0].name, [self.alias, *self.names()])
            raise self.source.error(f"there is no stream or column '{parts[0].name}' here", parts[0], like=like)
        return parts[0], parts[1:]

    def names(self) -> list[str]:
        """Names of the stream's columns."""
        return [c.name for c in self.columns.values()]

    def _column(self, node: exp.Column) -> exp.Expr:
        name, fields = self.split(node)
        found = self.columns.get(name.name.lower())
        if found is not None:
            value: exp.Expr = column(found.name)
            for each in fields:
                value = json_field(value, each.name) if found.type == "JSON" else struct_field(value, each.name)
            return value
        key = name.name.lower()
        if not fields and key in self.aliases and key not in self._open and node.table == "":
            self._open.append(key)
            try:
                return exp.Paren(this=self.resolver.resolve(self.aliases[key]))
            finally:
                self._open.pop()
        raise self.unknown(name)

    def _kind(self, node: exp.Column) -> str | None:
        """The declared type of a column, also behind an alias."""
        name, fields = self.split(node)
        key = name.name.lower()
        if (found := self.columns.get(key)) is not None:
            return found.type if not fields else None
        value = self.aliases.get(key)
        return self._kind(value) if isinstance(value, exp.Column) and value.name.lower() != key else None

    def unknown(self, name: exp.Expr, others: tuple[str, ...] = ()) -> Exception:
        """The error for a name that means nothing."""
        if name.name.lower() in WINDOW_COLUMNS:
            return self.source.error(f"{name.name} belongs to windows, not to rows", name, "SELECT, HAVING or ORDER BY")
        if isinstance(name, exp.Identifier) and name.args.get("quoted") and not others:
            hint = "a text is written in single quotes" if not nearest(name.name, self.names()) else ""
        else:
            hint = ""
        like = nearest(name.name, [*self.names(), *others, *self.aliases])
        return self.source.error(f"there is no column '{name.name}' in {self.stream.name}", name, hint, like)

    def _no_aggregate(self, node: exp.Expr) -> exp.Expr:
        raise self.source.error(self.aggregates_refused, node, "a value of one row; HAVING filters by aggregates")

    def type_of(self, sql: str) -> str:
        """The type of SQL over the stream's columns; '' when DuckDB refuses it."""
        try:
            return typed_relation(self.columns.values()).types([sql])[0]
        except Refused:
            return ""

    def text(self, node: exp.Expr) -> str:
        """DuckDB SQL over the stream's columns."""
        return self.resolver.text(node)

    def expression(self, node: exp.Expr) -> Expression:
        """What is asked over the stream's columns."""
        return self.resolver.expression(node)
