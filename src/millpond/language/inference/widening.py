"""Which types are wider than others: every value of the one is a value of the other, and means the same there."""

from __future__ import annotations

import re

_SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_UNSIGNED = ("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
#: Digits that the integers have at most.
_DIGITS = {
    "TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19,
    "UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10, "UBIGINT": 20,
}  # fmt: skip
#: Integers that a DOUBLE (53 bits) and a FLOAT (24 bits) hold exactly.
_IN_DOUBLE = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER")
_IN_FLOAT = ("TINYINT", "SMALLINT", "UTINYINT", "USMALLINT")
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")


def is_wider(old: str, new: str) -> bool:
    """Whether a column of type `old` may become one of type `new` (DuckDB types in canonical form).

    >>> is_wider("INTEGER", "BIGINT"), is_wider("BIGINT", "INTEGER"), is_wider("BIGINT", "DOUBLE")
    (True, False, False)
    >>> is_wider("DECIMAL(9,2)", "DECIMAL(18,4)"), is_wider("DECIMAL(9,2)", "DECIMAL(10,4)")
    (True, False)
    """
    if old == new:
        return False
    if old in _SIGNED and new in _SIGNED:
        return _SIGNED.index(old) < _SIGNED.index(new)
    if old in _UNSIGNED and new in _UNSIGNED:
        return _UNSIGNED.index(old) < _UNSIGNED.index(new)
    if old in _UNSIGNED and new in _SIGNED:
        return _UNSIGNED.index(old) < _SIGNED.index(new)
    if new == "DOUBLE":
        return old == "FLOAT" or old in _IN_DOUBLE
    if new == "FLOAT":
        return old in _IN_FLOAT
    wide = _DECIMAL.fullmatch(new)
    if wide is None:
        return False
    width, scale = int(wide[1]), int(wide[2])
    narrow = _DECIMAL.fullmatch(old)
    if narrow is not None:
        return scale >= int(narrow[2]) and width - scale >= int(narrow[1]) - int(narrow[2])
    return old in _DIGITS and width - scale >= _DIGITS[old]


def wider_than(old: str) -> str:
    """The types that a column of type `old` may become, in words.

    >>> wider_than("FLOAT"), wider_than("VARCHAR")
    ('DOUBLE', '')
    """
    some = [t for t in (*_SIGNED, *_UNSIGNED, "FLOAT", "DOUBLE", "DECIMAL(18,0)", "DECIMAL(38,0)") if is_wider(old, t)]
    if _DECIMAL.fullmatch(old):
        return "a DECIMAL with at least as many digits before and behind the point"
    return ", ".join(some)
