"""What kinds of operators know of the progress of their queries: it survives records, and shards combine it."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond.manifests.query_progress import NothingOwn, OwnProgress, QueryProgress, by_shard, combining, largest
from millpond.operators.contract import Answering
from millpond.operators.pairs.pairs_progress import PairsProgress
from millpond.operators.registry import KINDS
from millpond.operators.relation.relation_progress import RelationProgress
from millpond.operators.relational.relational_progress import Floor, RelationalProgress
from millpond.operators.windowed.window_progress import Held, WindowProgress, answered
from millpond.progress import NEVER
from millpond.types import TableStretch, from_json, to_json
from tests.types.test_records import filled

OWN = sorted({kind.progress_kind for kind in KINDS if issubclass(kind, Answering)}, key=lambda kind: kind.word)

#: The record that there was once for all kinds, as it stands in ponds of then.
FLAT = {
    "closed": 70, "start": 1, "first": 7, "windows": 2, "revisions": 1, "too_late": 3, "paused": None, "covered": 4,
    "groups": {"a": 80}, "early_at": 5, "stirred": True, "held": [{"after": 40, "until": 70, "since": 6, "place": 2}],
    "reduced": [[1, 2]], "dropped": 0.5, "scanned": "half", "coarse": [[1, 2, 3]], "pending": 90, "edge": 60,
    "floors": [{"first": 1, "last": 2, "closed": 3, "edge": 4, "sides": [5, 6]}], "sides": [7, 8], "edges": [5, 6],
    "side_groups": [{"b": 9}, {}], "tables": [{"since": 3, "versions": {"1": 2}}], "summed": True,
}  # fmt: skip


def through_a_record(progress: QueryProgress[Any]) -> QueryProgress:
    return from_json(QueryProgress, json.loads(json.dumps(to_json(progress))))


def test_kinds_have_words_of_their_own() -> None:
    assert {WindowProgress, RelationProgress, PairsProgress} <= set(OWN)
    assert len({kind.word for kind in OWN}) == len(OWN) and all(kind.word for kind in OWN)


@pytest.mark.parametrize("kind", [*OWN, QueryProgress], ids=lambda kind: kind.__name__)
def test_every_field_says_how_shards_combine(kind: type) -> None:
    assert combining(kind).keys() == {f.name for f in fields(kind)}


def test_a_field_without_a_rule_is_an_error() -> None:
    @dataclass(frozen=True)
    class Forgotten(OwnProgress):
        word: ClassVar[str] = "forgotten"
        known: int = by_shard(largest, 0)
        new: int = 0

    with pytest.raises(KeyError, match="rule"):
        Forgotten().after([Forgotten(1)])


@pytest.mark.parametrize("kind", OWN, ids=lambda kind: kind.__name__)
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(data=st.data())
def test_records_keep_every_field(kind: type[OwnProgress], data: st.DataObject) -> None:
    """Whoever passes it on unread changes nothing, and one shard that says what was before leaves it so."""
    own: OwnProgress = data.draw(filled(kind))
    progress = replace(QueryProgress(closed=5, paused=2), own=own)
    unread = through_a_record(progress)
    assert unread.read(kind) == progress
    assert through_a_record(unread) == unread
    assert own.after([own]) == own.after([own, own]) == own
    answering = replace(progress, paused=None)
    for each in KINDS:
        if issubclass(each, Answering) and each.progress_kind is kind:
            assert each.combined(unread, [through_a_record(answering)]) == answering


@pytest.mark.parametrize("kind", OWN, ids=lambda kind: kind.__name__)
def test_nobody_reads_what_another_kind_owns(kind: type[OwnProgress]) -> None:
    progress = replace(QueryProgress(), own=kind())
    others = [other for other in OWN if other is not kind]
    for known in (progress, through_a_record(progress)):
        for other in others:
            with pytest.raises(TypeError, match=f"'{kind.word}' is not of '{other.word}'"):
                known.read(other)
    # A class that several kinds have theirs from is none of them: what it left out would be lost.
    with pytest.raises(TypeError):
        through_a_record(replace(QueryProgress(), own=RelationProgress(summed=True))).read(RelationalProgress)


def test_records_of_before_are_read() -> None:
    """Once there was one record for all kinds; each takes what is its own."""
    known = from_json(QueryProgress, FLAT)
    assert replace(known, own=NothingOwn()) == QueryProgress(
        closed=70, start=1, windows=2, revisions=1, too_late=3, tables=(TableStretch(3, {"1": 2}),), own=NothingOwn()
    )
    windows = WindowProgress(
        7, {"a": 80}, 4, 5, True, (Held(40, 70, 6, 2),), ((1, 2),), 0.5, "half", ((1, 2, 3),)
    )  # fmt: skip
    floors = (Floor(1, 2, 3, 4, (5, 6)),)
    assert known.read(WindowProgress).own == windows and answered(known.read(WindowProgress)) == 40
    assert known.read(RelationProgress).own == RelationProgress(7, 90, 60, floors, 5, True, True, {"a": 80})
    assert known.read(PairsProgress).own == PairsProgress(7, 90, 60, floors, (7, 8), (5, 6), ({"b": 9}, {}))
    again = through_a_record(known)  # one that passes it on does not know whose it is
    assert [again.read(kind) for kind in OWN] == [known.read(kind) for kind in OWN]


def test_what_a_shard_changes_is_kept() -> None:
    before = QueryProgress(
        closed=5, start=1, windows=2, paused=3, own=RelationProgress(first=7, floors=(Floor(1, 2, 3, 4),))
    )
    silent = replace(before, closed=9, paused=None)
    stretch, floor = TableStretch(NEVER, {"1": 2}), Floor(5, 6, 7, 8)
    own = RelationProgress(4, 20, 8, (*before.own.floors, floor), 5, True, True)
    busy = replace(silent, windows=6, revisions=1, too_late=2, tables=(stretch,), own=own)
    for shards in ([silent, busy], [busy, silent]):
        assert before.after(shards) == busy
    assert before.after([busy, busy]) == replace(busy, windows=10, revisions=2, too_late=4)
    assert before.after([]) == before


def test_answers_that_wait_hold_back_what_is_answered() -> None:
    assert answered(QueryProgress(closed=9, own=WindowProgress())) == 9
    assert answered(QueryProgress(closed=9, own=WindowProgress(held=(Held(3, 5, 0), Held(5, 9, 0))))) == 3
