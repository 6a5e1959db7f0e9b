"""ALTER SYSTEM SET, ALTER QUERY … SET: what may change while a pond runs.

    ALTER SYSTEM SET target = 0.5
    ALTER QUERY slow SET (revise_for = '2 hours')

A change is an event of the catalog, so it holds after a restart, too; the next epoch goes by it.
"""

from __future__ import annotations

from dataclasses import replace

from millpond import language as lang
from millpond.answers.describe.settings import shown
from millpond.answers.row_queries.ready import ready_of
from millpond.catalog import Registered, Standing
from millpond.catalog.unions import progress_of
from millpond.commands.window_queries import check_options
from millpond.engine.control.system_stream import begin
from millpond.engine.core import Core
from millpond.manifests.records import QueryProgress
from millpond.operators.windowed.advance import revise_for
from millpond.progress import NEVER
from millpond.relations import spare_of
from millpond.support.errors import Refusal
from millpond.types import QueryOptions, RelationalQuery, RowWindowQuery, to_json
from millpond.types.options import Settings


def alter_system(core: Core, statement: lang.AlterSystem) -> str:
    """Change settings of the pond; call it under the core's lock. One that is set to DEFAULT is as when it was opened.

    Returns: what there is to say.
    """
    reset = {name for name, value in statement.settings.items() if value is None}
    reset.discard("share")  # this one is remembered, so that an opening finishes what a crash cut short
    changes = {
        name: core.opened_with.get(name, getattr(Settings(), name)) if value is None else value
        for name, value in statement.settings.items()
    }
    if changes.get("statistics"):
        begin(core)
    core.catalog_log.record(
        *(
            {"do": "reset_setting", "name": n} if n in reset else {"do": "set_setting", "name": n, "value": v}
            for n, v in changes.items()
        )
    )
    for name, value in changes.items():
        core.change_setting(name, value)
        if name == "hot_bytes":
            ready_of(core).resize(value)
    said = " and ".join(f"{name} = {shown(value)}" for name, value in changes.items())
    return f"{said} from the next epoch on"


def alter_options(core: Core, statement: lang.AlterQuery, standing: Standing | Registered) -> str:
    """Change options of a standing query; call it under the core's lock.

    Returns: what there is to say. Raises: Refusal where an option does not go with the query, or cannot change any
        more.
    """
    if isinstance(standing, Registered):
        raise Refusal(f"'{statement.name}' is a row query, which keeps no windows: it has none of these options")
    definition = standing.definition
    before, query = definition.options, definition.query
    plain = QueryOptions()
    changes = {name: getattr(plain, name) if value is None else value for name, value in statement.options.items()}
    after = replace(before, **changes)
    check_options(core.catalog, query, after)
    if (before.early is None) != (after.early is None):
        raise Refusal("'early' gives answers a column of its own: CREATE OR REPLACE QUERY … WITH (early = …)", "early")
    if before.flush != after.flush and "slow" in (before.flush, after.flush):
        raise Refusal(
            "answers that go out by and by do so in slots of their own: CREATE OR REPLACE QUERY changes it", "flush"
        )
    event = {"do": "set_options", "id": standing.id, "options": to_json(after)}
    if isinstance(query, RelationalQuery):
        if spare_of(query, after) > spare_of(query, before):
            raise Refusal(
                "the rows that a longer 'revise_for' would need are gone; of a relation it can only become shorter",
                "revise_for",
            )
    elif revise_for(query, after) > (known := revise_for(query, before)):
        if core.catalog.inner_of(standing):
            raise Refusal(
                "what a longer 'revise_for' would join is gone; over a join of streams it can only become shorter",
                "revise_for",
            )
        progress = core.published.queries.get(str(standing.id), QueryProgress())
        if isinstance(query, RowWindowQuery):
            raise Refusal(
                f"'revise_for' of a window that ends with rows can only become shorter than {known} µs", "revise_for"
            )
        spec = core.catalog.synopses[standing.synopsis].spec
        high = progress_of(core.catalog, spec, core.published.progress).high
        # What windows before that were made of is not kept any more: they stay as they are.
        event["floor"] = max(NEVER, min(progress.answered, high) - known)
    core.catalog_log.record(event)
    changed = ", ".join(statement.options)
    return f"query {definition.name} altered: {changed}, from the next epoch on"


__all__ = ["alter_options", "alter_system"]
