"""Which statements a role may run: read looks, write also keeps queries of its own, admin does everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millpond import language as lang
from millpond.server.access.auth import Caller, Role
from millpond.server.failures import Failure
from millpond.support.errors import StatementError
from millpond.support.wire import error_json

_READS = (lang.Select, lang.Invoke, lang.Show, lang.ShowCreate, lang.Describe, lang.Explain)


def needed(statement: lang.Statement) -> Role:
    """The least role for a statement. What this list does not know is for admins.

    >>> needed(lang.parse("SELECT 1")[0]), needed(lang.parse("DRAIN FINAL")[0])
    ('read', 'admin')
    """
    if isinstance(statement, _READS):
        return "read"
    if isinstance(statement, (lang.CreateQuery, lang.AlterQuery)):
        return "write"
    if isinstance(statement, lang.Drop):
        return "write" if statement.kind == "query" and not statement.cascade else "admin"
    if isinstance(statement, lang.Drain):
        return "admin" if statement.final else "write"
    return "admin"


def check(statements: Sequence[lang.Statement], caller: Caller, owner_of: Callable[[str], str | None]) -> None:
    """Refuse a script of which the caller may not run every statement; nothing of it has been executed then.

    Arguments:
        owner_of: the owner of the query of that name; None: there is no such query.
    Raises: Failure 403, with the place of the statement.
    """
    if caller.role == "admin":
        return
    made: set[str] = set()
    for statement in statements:
        role = needed(statement)
        if not caller.may(role):
            raise _refused(statement, f"this statement needs a token with role '{role}'; this one has '{caller.role}'")
        if isinstance(statement, (lang.CreateQuery, lang.AlterQuery, lang.Drop)):
            name = statement.name
            owner = caller.owner if name.lower() in made else owner_of(name)
            if owner is not None and owner != caller.owner:
                raise _refused(statement, f"query '{name}' belongs to somebody else")
            if isinstance(statement, lang.CreateQuery):
                made.add(name.lower())


def _refused(statement: lang.Statement, message: str) -> Failure:
    end = statement.offset + len(statement.text.split("\n", 1)[0])
    shown = error_json(StatementError(message, statement.script, statement.offset, end))
    return Failure(403, "forbidden", shown["message"], place=shown["place"])
