"""The names that the engine has for columns of its own beside those of users: all of them are known."""

import ast
import re
from pathlib import Path

import pytest

import millpond
from millpond.language.script import parse
from millpond.types.columns import OWN_NAMES, is_own

SOURCE = Path(millpond.__file__).parent

#: A word that begins with one underscore, where it can be a column in SQL or of a table.
WORD = re.compile(r"(?<![\w.{/%$-])_[a-z][a-z0-9_]*(?![\w(])")

#: Such words that name no column.
OTHERS = {"_delta_log", "_per_owner", "_seconds"}


def words(path: Path) -> set[str]:
    """The words of a module's texts, without its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
    ]
    return {word for text in texts for word in WORD.findall(text)}


def test_every_name_is_known() -> None:
    listed = SOURCE / "types" / "columns.py"
    found = {word for path in SOURCE.rglob("*.py") if path != listed for word in words(path)} - OTHERS
    assert sorted(name for name in found if not is_own(name)) == []
    assert len(found) > 20


def test_no_column_is_declared_so() -> None:
    for name in sorted(OWN_NAMES | {"__typename", "_K7"}):
        with pytest.raises(millpond.StatementError, match="of its own beside those of users"):
            parse(f'CREATE STREAM s (ts TIMESTAMP, "{name}" INTEGER)')
    assert parse("CREATE STREAM s (ts TIMESTAMP, _source INTEGER, n INTEGER, op TEXT)")
