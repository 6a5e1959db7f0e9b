"""Sharing as a state machine: queries come and go, epochs pass; every query is served by a synopsis that fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from millpond.catalog import Catalog, apply, assign
from millpond.catalog.catalog_state import Standing
from millpond.synopses import spec_of
from millpond.types import (
    Aggregate,
    Column,
    Key,
    Output,
    QueryDefinition,
    StreamDefinition,
    StreamOptions,
    TimeWindow,
    WindowQuery,
    to_json,
)
from millpond.types.sql_expressions import parsed

STREAM = StreamDefinition(
    "s", (Column("ts", "TIMESTAMP"), Column("v", "BIGINT"), Column("k", "VARCHAR")), StreamOptions(time="ts"), 1
)
AGGREGATES = (
    Aggregate("a0", "count_star"),
    Aggregate("a0", "sum", (parsed("v").typed("BIGINT"),), type="HUGEINT"),
    Aggregate("a0", "avg", (parsed("v").typed("BIGINT"),), type="DOUBLE"),
    Aggregate("a0", "median", (parsed("v").typed("BIGINT"),), type="DOUBLE"),
)


@st.composite
def queries(draw: st.DrawFn) -> WindowQuery:
    unit = draw(st.sampled_from([10, 30]))
    window = TimeWindow(
        unit * draw(st.sampled_from([1, 2, 3])), unit * draw(st.sampled_from([1, 2])), draw(st.sampled_from([0, 0, 5]))
    )
    return WindowQuery(
        stream="s",
        window=window,
        select=(Output("n", parsed("a0").typed("BIGINT")),),
        where=parsed(draw(st.sampled_from([None, "v > 0"]))),
        keys=draw(st.sampled_from([(), (Key("k0", parsed("k").typed("VARCHAR")),)])),
        aggregates=(draw(st.sampled_from(AGGREGATES)),),
        limit=draw(st.sampled_from([None, None, 3])),
    )


class Sharing(RuleBasedStateMachine):
    """The catalog, the next epoch, and since when each synopsis is complete."""

    def __init__(self) -> None:
        super().__init__()
        self.catalog = apply(Catalog(), {"do": "create_stream", "definition": to_json(STREAM)})
        self.next_epoch = 1
        self.complete: dict[str, int] = {}

    @rule(query=queries(), needed=st.integers(0, 50), share=st.booleans())
    def create(self, query: WindowQuery, needed: int, share: bool) -> None:
        before = dict(self.catalog.synopses)
        synopsis, new = assign(self.catalog, query, STREAM, self.next_epoch, self.complete, needed, share)
        wanted = spec_of(query, STREAM)
        assert synopsis.spec.serves(wanted, query)
        known = before.get(synopsis.owner)
        if not share:
            assert known is None and new and synopsis.spec == wanted
        if known is None:
            assert new and synopsis.first_epoch == self.next_epoch
        elif new:
            assert known.first_epoch == self.next_epoch, "only a synopsis that has not started takes in more"
            assert {c.name for c in known.spec.components} < {c.name for c in synopsis.spec.components}
            assert replace(synopsis.spec, components=known.spec.components) == known.spec
        else:
            assert synopsis == known
            started = known.first_epoch < self.next_epoch
            assert not started or self.complete.get(known.owner, 10**9) <= needed
        number = self.catalog.next_id
        standing = Standing(QueryDefinition(f"q{number}", query, id=number), synopsis.owner, self.next_epoch)
        event: dict[str, Any] = {"do": "create_query", "standing": to_json(standing)}
        if new:
            event["synopsis"] = to_json(synopsis)
        self.catalog = apply(self.catalog, event)

    @precondition(lambda self: self.catalog.queries)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.catalog.queries)))
        self.catalog = apply(self.catalog, {"do": "drop_query", "id": number})

    @rule(data=st.data())
    def epoch(self, data: st.DataObject) -> None:
        self.next_epoch += 1
        for owner in self.catalog.synopses:
            self.complete.setdefault(owner, data.draw(st.integers(0, 50)))

    @invariant()
    def every_query_is_served(self) -> None:
        for standing in self.catalog.queries.values():
            synopsis = self.catalog.synopses[standing.synopsis]
            query = standing.definition.query
            assert synopsis.spec.serves(spec_of(query, STREAM), query)

    @invariant()
    def no_synopsis_is_idle(self) -> None:
        assert set(self.catalog.synopses) == {q.synopsis for q in self.catalog.queries.values()}

    @invariant()
    def names_of_state_are_never_used_twice(self) -> None:
        assert all(owner == s.owner for owner, s in self.catalog.synopses.items())


Sharing.TestCase.settings = settings(max_examples=40, stateful_step_count=25)
TestSharing = Sharing.TestCase


def test_a_name_of_state_is_not_given_again() -> None:
    """Dropped and made again: the new one must not find the old one's state."""
    catalog = apply(Catalog(), {"do": "create_stream", "definition": to_json(STREAM)})
    query = WindowQuery(
        stream="s",
        window=TimeWindow(10, 10),
        select=(Output("n", parsed("a0").typed("BIGINT")),),
        aggregates=AGGREGATES[:1],
    )
    owners = []
    for _ in range(3):
        synopsis, new = assign(catalog, query, STREAM, 7, {}, 0)
        assert new
        standing = Standing(QueryDefinition("q", query, id=catalog.next_id), synopsis.owner, 7)
        catalog = apply(catalog, {"do": "create_query", "standing": to_json(standing), "synopsis": to_json(synopsis)})
        owners.append(synopsis.owner)
        catalog = apply(catalog, {"do": "drop_query", "id": standing.id})
    assert len(set(owners)) == 3
