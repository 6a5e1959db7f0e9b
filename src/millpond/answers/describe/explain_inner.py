"""What SHOW and EXPLAIN say of streams that queries made for themselves: they stand with their queries."""

from __future__ import annotations

from collections.abc import Sequence

from millpond.catalog import Catalog, Standing
from millpond.engine.core import Core
from millpond.types import StreamDefinition


def shown_names(catalog: Catalog, streams: Sequence[StreamDefinition]) -> list[str]:
    """The names of streams as they were given: of one without a name, those that it is made of."""
    found: list[str] = []
    for each in streams:
        if each.is_inner and each.derived is not None:
            found += shown_names(catalog, [catalog.streams[s] for s in each.derived.sources])
        else:
            found.append(each.name)
    return list(dict.fromkeys(found))


def _change(stream: StreamDefinition) -> str:
    return "take others back" if stream.takes_back else "stay as they are"


def inner_lines(core: Core, standing: Standing) -> list[str]:
    """How the streams are made that stand without a name in a query's FROM; empty: there are none."""
    from millpond.answers.relational import explain_relational

    catalog = core.catalog
    lines: list[str] = []
    for stream in reversed(catalog.inner_of(standing)):
        assert stream.derived is not None
        query = catalog.queries[stream.derived.query or 0]
        others = sorted(n for n in catalog.readers_of(stream.id) if n != standing.definition.name)
        shared = f", shared with {', '.join(others)}" if others else ", its own"
        lines.append(f"query over {stream.label}, an epoch after they form; they {_change(stream)}{shared}")
        lines += [f"  {line}" for line in explain_relational(core, query.relational, query)["plan"].to_pylist()]
    for stream in catalog.inner_of(standing):
        lines = [line.replace(stream.name, stream.label) for line in lines]
    return lines
