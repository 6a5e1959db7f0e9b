"""What is kept of shards: one rule for all of it, whatever happens to ponds and openings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millpond.tables.shard_cache import Kept, ShardCache, Version, clear_all, forget

VERSIONS = st.builds(Version, st.sampled_from("pq"), st.sampled_from(["", "a", "b"]), st.integers(1, 4))
PLACES = st.tuples(st.sampled_from("xy"), st.integers(0, 1))


@given(st.lists(st.tuples(VERSIONS, PLACES), max_size=8), VERSIONS, PLACES)
def test_what_is_found_is_of_this_history(
    puts: list[tuple[Version, tuple[str, int]]], asked: Version, place: tuple
) -> None:
    cache = ShardCache[Version]()
    for version, where in puts:
        cache.put(version, *where, version)
    last = next((v for v, where in reversed(puts) if v.opening and v.pond == asked.pond and where == place), None)
    fits = last is not None and last.opening == asked.opening and last.epoch <= asked.epoch
    assert cache.get(asked, *place) == (Kept(last.epoch, last) if fits and last is not None else None)


def test_what_is_gone_is_forgotten_in_all_caches() -> None:
    caches = [ShardCache[int](), ShardCache[int]()]
    now = Version("pond", "a", 1)
    for cache in caches:
        for owner in ("kept", "dropped"):
            cache.put(now, owner, 0, 1)
            cache.put(Version("other", "a", 1), owner, 0, 2)
    forget("pond", {"kept"})
    for cache in caches:
        assert cache.get(now, "kept", 0) and not cache.get(now, "dropped", 0)
        assert cache.get(Version("other", "a", 1), "dropped", 0)
    clear_all()
    assert not any(cache.everything() for cache in caches)


def test_parts_of_what_an_owner_keeps() -> None:
    cache = ShardCache[str]()
    then, now = Version("pond", "a", 1), Version("pond", "a", 2)
    cache.put(then, "q", 0, "one", "first", 1)
    cache.put(Version("pond", "b", 1), "q", 0, "two", "second", 2)
    cache.put(then, "q", 1, "three", "third", 3)
    assert dict(cache.parts(now, "q", 0)) == {("first", 1): Kept(1, "one"), ("second", 2): None}
    cache.drop(now, "q", 0, "first", 1)
    assert [part for part, _ in cache.parts(now, "q", 0)] == [("second", 2)]
