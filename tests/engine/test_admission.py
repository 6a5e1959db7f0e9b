"""What an epoch takes in: in order, every stream, within the limits; and the pace that keeps epochs on time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millpond.engine.intake.admission import LOOKED_AT, SMALL, Pace, admit, fixed_cost, splits_of
from millpond.sources.intake_log import Item


def item(ordinal: int, size: int, rows: int | None = None) -> Item:
    return Item(ordinal, "file", f"/f{ordinal}", "csv", size, 0, "", rows, "", 0)


PENDING = st.dictionaries(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 3 << 20), st.none() | st.integers(0, 3000)), max_size=8).map(
        lambda sizes: [item(n, size, rows) for n, (size, rows) in enumerate(sizes)]
    ),
    max_size=4,
)


@given(PENDING, st.integers(1 << 20, 8 << 20), st.integers(1, 5000))
def test_admission(pending: dict[int, list[Item]], limit: int, rows: int) -> None:
    taken = admit(pending, Pace(limit=limit, rows=rows))
    assert set(taken) == {s for s, items in pending.items() if items}
    for stream, items in taken.items():
        assert items and items == pending[stream][: len(items)], "a prefix, at least one"
    size = sum(i.size for items in taken.values() for i in items)
    count = sum(i.rows if i.rows is not None else i.size // 40 for items in taken.values() for i in items)
    firsts = [items[0] for items in taken.values()]
    least = sum(i.size for i in firsts), sum(i.rows if i.rows is not None else i.size // 40 for i in firsts)
    assert size <= max(limit, least[0] + limit) and count <= max(rows, least[1] + rows)
    # What was left did not fit: any stream's next item would have gone beyond a limit.
    for stream, items in taken.items():
        rest = pending[stream][len(items) :]
        if rest:
            following = rest[0].rows if rest[0].rows is not None else rest[0].size // 40
            assert size + rest[0].size > limit or count + following > rows


def test_streams_take_turns() -> None:
    pending = {s: [item(n, 1 << 20, 1) for n in range(100)] for s in (1, 2)}
    taken = admit(pending, Pace(limit=10 << 20))
    assert [len(taken[s]) for s in (1, 2)] == [5, 5]


@given(PENDING, st.integers(1, 9))
def test_splits_cover_what_was_taken(pending: dict[int, list[Item]], cores: int) -> None:
    taken = {s: i for s, i in pending.items() if i}
    splits = splits_of(taken, cores)
    for stream, items in taken.items():
        mine = [s for s in splits if s.stream == stream]
        assert [i["ordinal"] for s in mine for i in s.items] == [i.ordinal for i in items]
        assert all(s.items for s in mine)
        before: list[int] = []
        for s in mine:
            assert [i["ordinal"] for i in s.before] == before
            before += [i["ordinal"] for i in s.items]
        if sum(i.size for i in items) < SMALL:
            assert len(mine) == 1, "small work is one task"
    assert len(splits) <= cores + len(taken)


def test_a_pace_finds_the_rate() -> None:
    """A machine of 100 MB/s: epochs end up near the target, from either side."""
    for start in (1 << 20, 400 << 20):
        pace = Pace(target=2.0, limit=start)
        for _ in range(30):
            pace.learn(pace.limit, pace.fixed + pace.limit / (100 << 20))
        assert 1.8 <= pace.fixed + pace.limit / (100 << 20) <= 2.2


def test_a_pace_stays_in_bounds() -> None:
    pace = Pace()
    before = pace.limit
    pace.learn(10, 30.0)
    pace.learn(pace.limit, 0.0)
    assert pace.limit == before, "small epochs and odd clocks teach nothing"
    for _ in range(50):
        pace.learn(pace.limit, 100.0)
    assert pace.limit >= pace.smallest
    for _ in range(50):
        pace.learn(pace.limit, 0.01)
    assert pace.limit == pace.largest
    slow = Pace(limit=100 << 20)
    slow.learn(100 << 20, 60.0)
    assert slow.limit >= 50 << 20, "one slow epoch halves at most"


def test_a_pace_learns_what_epochs_cost_whatever_they_take() -> None:
    """On a busy machine with 1.5 s of overhead epochs do not become small ones that are mostly overhead."""
    pace, size = Pace(target=2.0, limit=8 << 20), 0
    for turn in range(40):
        size = pace.limit if turn % 3 else pace.limit // 2
        pace.learn(size, 1.5 + size / (20 << 20))
    assert abs(pace.fixed - 1.5) < 0.1
    assert 1.2 < pace.limit / (20 << 20) < 1.8, "as much work as overhead"


def test_a_pace_takes_more_at_a_time_while_much_waits() -> None:
    """20 MB/s and 3 s of overhead: five targets are 10 s, of which 7 are work, until what waits is little."""
    pace = Pace(target=2.0, fixed=3.0, limit=20 << 20)
    for _ in range(20):
        pace.learn(pace.limit, 3.0 + pace.limit / (20 << 20), waiting=4 << 30)
    assert 6.5 < pace.limit / (20 << 20) < 7.5
    for _ in range(20):
        pace.learn(pace.limit, 3.0 + pace.limit / (20 << 20), waiting=1 << 20)
    assert pace.limit / (20 << 20) < 2.2


@given(st.lists(st.tuples(st.integers(1, 1 << 30), st.floats(0.001, 100.0)), min_size=1, max_size=LOOKED_AT))
def test_fixed_cost_is_part_of_every_epoch(epochs: list[tuple[int, float]]) -> None:
    assert 0 <= fixed_cost(epochs, 0.25) < min(seconds for _, seconds in epochs)


def test_tasks_have_equal_shares_while_more_waits() -> None:
    files = [item(n, 9 << 20, 500_000) for n in range(24)]
    assert [len(admit({1: files}, Pace(limit=9 * n << 20), cores=2)[1]) for n in (1, 2, 5, 7, 8)] == [2, 2, 4, 6, 8]
    assert len(admit({1: files[:5]}, Pace(limit=1 << 30), cores=2)[1]) == 5, "all that is there"
    assert len(admit({1: files}, Pace(limit=99 << 20), cores=4)[1]) == 8
    uneven = [item(n, size << 20) for n, size in enumerate([9, 3, 3, 3, 9, 9, 9])]
    assert len(admit({1: uneven}, Pace(limit=28 << 20, rows=1 << 40), cores=2)[1]) == 4
