"""Types of columns, from text that users write to DuckDB's canonical form."""

from __future__ import annotations

from typing import TypeAlias

from sqlglot import exp

from millpond.language.inference.duck import Refused, describe
from millpond.language.render.rendering import render

_DType = exp.DType

#: Scalar types that Arrow carries.
SCALARS: dict[exp.DType, str] = {
    _DType.BOOLEAN: "BOOLEAN",
    _DType.TINYINT: "TINYINT",
    _DType.SMALLINT: "SMALLINT",
    _DType.INT: "INTEGER",
    _DType.BIGINT: "BIGINT",
    _DType.INT128: "HUGEINT",
    _DType.UTINYINT: "UTINYINT",
    _DType.USMALLINT: "USMALLINT",
    _DType.UINT: "UINTEGER",
    _DType.UBIGINT: "UBIGINT",
    _DType.UINT128: "UHUGEINT",
    _DType.FLOAT: "FLOAT",
    _DType.DOUBLE: "DOUBLE",
    _DType.DECIMAL: "DECIMAL",
    _DType.TEXT: "VARCHAR",
    _DType.VARCHAR: "VARCHAR",
    _DType.CHAR: "VARCHAR",
    _DType.BINARY: "BLOB",
    _DType.VARBINARY: "BLOB",
    _DType.BLOB: "BLOB",
    _DType.DATE: "DATE",
    _DType.TIME: "TIME",
    _DType.TIMESTAMP: "TIMESTAMP",
    _DType.TIMESTAMPNTZ: "TIMESTAMP",
    _DType.TIMESTAMPTZ: "TIMESTAMPTZ",
    _DType.TIMESTAMP_S: "TIMESTAMP_S",
    _DType.TIMESTAMP_MS: "TIMESTAMP_MS",
    _DType.TIMESTAMP_NS: "TIMESTAMP_NS",
    _DType.INTERVAL: "INTERVAL",
    _DType.UUID: "UUID",
    _DType.JSON: "JSON",
    _DType.ENUM: "ENUM",
}
NESTED = (_DType.ARRAY, _DType.LIST, _DType.STRUCT, _DType.MAP)

NAMES = (*dict.fromkeys(SCALARS.values()), "TEXT", "INT", "STRUCT", "MAP")
TIMES = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")

_Kind: TypeAlias = "exp.DType | str"


class TypeRefused(ValueError):
    """A type that a column cannot have; `name` is the part that is wrong."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


def type_sql(node: exp.DataType) -> str:
    """SQL of a parsed type, built from known names only.

    Raises:
        TypeRefused: it is no type, or one that Arrow cannot carry.
    """
    kind = node.this
    arguments = node.expressions
    if kind in (_DType.ARRAY, _DType.LIST):
        if len(arguments) != 1 or not isinstance(arguments[0], exp.DataType):
            raise TypeRefused("a list needs the type of its elements, as in INTEGER[]")
        sizes = [v for v in node.args.get("values") or ()]
        if any(not (isinstance(v, exp.Literal) and v.name.isdigit()) for v in sizes) or len(sizes) > 1:
            raise TypeRefused("the size of an array is a whole number")
        return f"{type_sql(arguments[0])}[{sizes[0].name if sizes else ''}]"
    if kind == _DType.STRUCT:
        if not arguments or any(
            not isinstance(a, exp.ColumnDef) or not isinstance(a.args.get("kind"), exp.DataType) for a in arguments
        ):
            raise TypeRefused("a struct needs fields, as in STRUCT(a INTEGER, b VARCHAR)")
        return "STRUCT(" + ", ".join(f"{render(exp.to_identifier(a.name))} {type_sql(a.kind)}" for a in arguments) + ")"
    if kind == _DType.MAP:
        if len(arguments) != 2 or not all(isinstance(a, exp.DataType) for a in arguments):
            raise TypeRefused("a map needs two types, as in MAP(VARCHAR, INTEGER)")
        return f"MAP({type_sql(arguments[0])}, {type_sql(arguments[1])})"
    if isinstance(kind, exp.Interval):
        return "INTERVAL"
    if kind not in SCALARS:
        name = str(node.args.get("kind") or getattr(kind, "value", kind))
        if kind == _DType.USERDEFINED:
            raise TypeRefused(f"there is no type {name}", name)
        raise TypeRefused(f"type {name} cannot be carried by Arrow", "")
    name = SCALARS[kind]
    if kind == _DType.ENUM:
        if not arguments or not all(isinstance(a, exp.Literal) and a.is_string for a in arguments):
            raise TypeRefused("an ENUM needs its values, as in ENUM('a', 'b')")
        return "ENUM(" + ", ".join(render(a) for a in arguments) + ")"
    if arguments and kind == _DType.DECIMAL:
        sizes = [a.this for a in arguments]
        if len(sizes) > 2 or not all(isinstance(s, exp.Literal) and s.name.isdigit() for s in sizes):
            raise TypeRefused("a DECIMAL has a width and a scale, as in DECIMAL(18, 3)")
        return f"DECIMAL({', '.join(s.name for s in sizes)})"
    if arguments and kind not in (_DType.TEXT, _DType.VARCHAR, _DType.CHAR):
        raise TypeRefused(f"type {name} takes nothing in parentheses")
    return name


def canonical(node: exp.DataType) -> str:
    """The type as DuckDB writes it.

    Raises:
        TypeRefused: as `type_sql`, or DuckDB does not know it.

    >>> canonical(exp.DataType.build("int", dialect="duckdb"))
    'INTEGER'
    """
    try:
        return describe(f"SELECT CAST(NULL AS {type_sql(node)})")[0].type
    except Refused as refused:
        raise TypeRefused(refused.reason) from None
