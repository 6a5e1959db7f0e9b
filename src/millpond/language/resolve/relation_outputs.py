"""The columns that answers of relations have: names of their own."""

from __future__ import annotations

from millpond.types import Column, Expression, Output

#: Names that answers have by themselves.
RESERVED = ("at", "change", "revision", "op", "covered_from", "window_start", "window_end")


def outputs_of(columns: tuple[Column, ...]) -> tuple[Output, ...]:
    """The answer's columns with names of their own; their expressions are positions, which nobody evaluates."""
    taken = set(RESERVED)
    found = []
    for n, each in enumerate(columns):
        name, count = each.name, 0
        while name.lower() in taken:
            count += 1
            name = f"{each.name}_{count}"
        taken.add(name.lower())
        kind = "INTEGER" if each.type in ('"NULL"', "NULL") else each.type
        found.append(Output(name, Expression(f"c{n}", (f"c{n}",), type=kind)))
    return tuple(found)
