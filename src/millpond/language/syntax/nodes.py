"""Nodes of syntax trees that sqlglot does not have."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp


class CheckedCast(exp.Expression, exp.Func):
    """A cast whose type is the text that `column_types.type_sql` built, so that sqlglot does not reword the type."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True, "safe": False}
