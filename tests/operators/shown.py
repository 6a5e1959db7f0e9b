"""What is compared of a pond at the end of a case, by what it computes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from millpond.archive import fractions, seed_of
from millpond.archive.copy_files import eager_copies, file_path
from millpond.manifests.places import state_folder, summaries_folder
from millpond.operators.row_query.matching import hot_folder
from millpond.operators.stream_operator import StreamOperator
from millpond.sources.derived_stream import derived_folder
from millpond.synopses import connection
from millpond.synopses.partials.late_exclusions import merge_cuts, without_cut
from millpond.synopses.predicate_index.block_files import read_blocks
from millpond.tables import read_chunks
from tests.operators.driver import Driver, arrow_rows

#: What a pond has made in the end: rows, by what they are the answer to.
Answers = Mapping[str, list[tuple[Any, ...]]]


def last_answers(driver: Driver) -> Answers:
    """The last answers of all standing queries, by name, and what operators answer that streams ask for, by owner."""
    found = {q.definition.name: driver.latest(q) for q in driver.catalog.queries.values()}
    paths = [os.path.join(state_folder(driver.pond), s.path) for s in driver.state]
    for operator in driver.operators:
        if isinstance(operator, StreamOperator):
            progress = driver.published.progress[str(operator.stream.id)]
            answer = operator.answer(read_chunks(paths, {operator.owner}), progress)
            found[operator.owner] = [tuple(row.values()) for row in answer.to_pylist()]
    return found


def copied(driver: Driver) -> Answers:
    """Of each copy, the rows that it has and should not have, and those that it lacks; and all rows.

    Which rows a copy keeps goes by their ids, and these by how rows are cut.
    """
    found: dict[str, list[tuple[Any, ...]]] = {}
    for stream in driver.catalog.streams.values():
        ids = _ids(driver, [file_path(driver.pond, stream, "", s) for s in driver.archive[stream.id]])
        found[stream.name] = [(number,) for number in range(len(ids))]
        for copy, kept in eager_copies(stream).items():
            there = _ids(driver, [file_path(driver.pond, stream, copy, s) for s in driver.copies[stream.id, copy]])
            wanted = [i for i, u in zip(ids, fractions(ids, seed_of(stream)), strict=True) if u < kept]
            found[copy] = [(i,) for i in sorted(set(there) ^ set(wanted))]
    return found


def _ids(driver: Driver, paths: list[str]) -> list[int]:
    return [i for path in paths for i in pq.read_table(path, columns=["_id"])["_id"].to_pylist()]


def summarised(driver: Driver) -> Answers:
    """The partials of each summary, put together, and the answers of queries."""
    found = dict(last_answers(driver))
    for summary in driver.catalog.summaries.values():
        spec = driver.catalog.synopses[summary.owner].spec
        paths = [os.path.join(summaries_folder(driver.pond), s.path) for s in driver.entries]
        tables = [chunk.table for chunk in read_chunks(paths, {f"s{summary.id}"})]
        whole = without_cut(connection(), spec, merge_cuts(connection(), spec, tables))
        found[summary.query] = [tuple(row.values()) for row in whole.to_pylist()]
    return found


def passed_on(driver: Driver) -> Answers:
    """The rows that were handed on to each derived stream."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for stream in driver.catalog.streams.values():
        if stream.derived is not None:
            files = sorted(Path(derived_folder(driver.pond, stream)).glob("*.arrow"))
            found[stream.name] = [tuple(row.values()) for file in files for row in arrow_rows(file)]
    return found


def netted(driver: Driver) -> Answers:
    """The rows that were handed on to each derived stream, without those that were taken back."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name, rows in passed_on(driver).items():
        net: Counter[tuple[Any, ...]] = Counter()
        for *values, op in rows:
            net[tuple(values)] += 1 if op == "+" else -1
        found[name] = [row for row, count in net.items() for _ in range(abs(count))]
    return found


def matched(driver: Driver) -> Answers:
    """The rows that each row query has met."""
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in driver.declared.row_queries.values()}
    for stream in driver.catalog.streams.values():
        for file in sorted(Path(hot_folder(driver.pond, stream)).glob("*.blocks")):
            for block, matches in read_blocks(str(file)) or ():
                rows = block.rows.select([c.name for c in stream.columns]).to_pylist()
                for query in () if matches is None else matches.queries.tolist():
                    found[driver.declared.row_queries[query]] += [tuple(rows[i].values()) for i in matches.rows(query)]
    return found
