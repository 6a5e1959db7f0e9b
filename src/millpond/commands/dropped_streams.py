"""DROP STREAM: a stream with its own query, and what hangs on it."""

from __future__ import annotations

from collections.abc import Sequence

from millpond import language as lang
from millpond.engine.control.system_stream import check_drop
from millpond.engine.core import Core
from millpond.support.errors import QueryError, StatementError
from millpond.types import StreamDefinition

#: Names that a message lists.
_SHOWN = 10


def drop_stream(core: Core, stream: StreamDefinition, statement: lang.Drop) -> str:
    """Drop a stream with its own query; with CASCADE also the streams made of it, and what reads these.

    Returns: what there is to say. Raises: StatementError where something reads it, and CASCADE is not said.
    """
    register, catalog = core.register, core.catalog
    check_drop(core, stream)
    derived = catalog.derived_from(stream.id)
    doomed = [stream, *derived]
    own = {s.derived.query for s in doomed if s.derived is not None}
    reading = {q.id: q for s in doomed for q in catalog.on_stream(s.id)}
    users = [q for q in reading.values() if q.id not in own]
    rows = {s.id: register.close_stream(s.id) for s in doomed}
    asked = [q for queries in rows.values() for q in queries]
    try:
        shown = [s for s in derived if not s.is_inner]
        if (derived or users or asked) and not statement.cascade:
            start, end = lang.token_place(statement, statement.name)
            names = _some_names(core, [*(s.name for s in shown), *(q.definition.name for q in users)], asked)
            first = "DROP STREAM" if shown else "DROP QUERY"
            raise StatementError(
                f"stream '{stream.name}' is read by {names}", statement.script, start, end,
                f"CASCADE to drop them too, or {first} first",
            )  # fmt: skip
        gone = [*(q.id for q in users), *(q for q in own if q in catalog.queries)]
        core.catalog_log.record(
            *({"do": "drop_query", "id": q} for q in gone), *({"do": "drop_stream", "id": s.id} for s in doomed)
        )
    except BaseException:
        for each in doomed:
            register.reopen_stream(each.id)
        raise
    for number, queries in rows.items():
        if queries:
            register.drop_stream(number)
    counts = [(len(users) + len(asked), "query", "queries"), (len(shown), "stream", "streams")]
    with_them = " and ".join(f"{count} {one if count == 1 else many}" for count, one, many in counts if count)
    return f"stream {stream.name} dropped" + (f", with {with_them}" if with_them else "")


def _some_names(core: Core, users: Sequence[str], rows: Sequence[int]) -> str:
    shown = sorted(users)
    for query in rows[: max(0, _SHOWN - len(shown))]:
        try:
            shown.append(core.register.get(query).name)
        except QueryError:  # dropped meanwhile
            continue
    more = len(users) + len(rows) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
