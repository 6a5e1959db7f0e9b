"""Which files compaction merges: a bounded amount at a time, and in the end no more files than their rows need."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millpond.archive.upkeep.compaction import FAN_IN, MERGED_ROWS, MOST_ROWS, SMALL_ROWS, chosen_for_merge
from millpond.tables import Segment

BYTES_PER_ROW = 20


def segment(epoch: int, rows: int, level: int = 0) -> Segment:
    return Segment(f"{epoch}-{level}-{rows}", rows, rows * BYTES_PER_ROW, epoch, epoch, epoch, epoch, level)


@given(st.lists(st.integers(1, 3 * MERGED_ROWS), max_size=60), st.integers(0, 3))
def test_a_merge_is_bounded(sizes: list[int], level: int) -> None:
    chosen = chosen_for_merge([segment(n, rows, level) for n, rows in enumerate(sizes)])
    assert len(chosen) != 1 and sum(s.rows for s in chosen) <= MOST_ROWS


def test_a_growing_archive_ends_up_in_few_files_and_is_never_read_whole() -> None:
    files: list[Segment] = []
    total = merged = largest = 0
    for epoch in range(1500):
        files.append(segment(epoch, 40_000))
        total += 40_000
        while chosen := chosen_for_merge(files):
            rows = sum(s.rows for s in chosen)
            largest, merged = max(largest, rows), merged + rows
            files = [s for s in files if s not in chosen]
            pieces = -(-rows // MERGED_ROWS)
            level = 1 + max(s.level for s in chosen)
            files += [
                Segment(
                    f"c{epoch}-{level}-{n}", rows // pieces, rows // pieces * BYTES_PER_ROW, 0, 0, epoch, epoch, level
                )
                for n in range(pieces)
            ]
    levels = max(s.level for s in files) + 1
    assert largest <= MOST_ROWS
    assert len(files) <= total / SMALL_ROWS + levels * FAN_IN
    assert merged <= levels * total  # every row is rewritten once a level
