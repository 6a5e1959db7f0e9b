"""Granularity of progress between stages: an announcement that no consumer can use is not handed on (Li 2008, 1.2).

Tucker's Describe (`progress.marks.Describe`) rolls punctuation up to what the consumer needs: a bound between two ends
of its windows closes nothing. Here the operator stands between a stage and the stream that is derived from it. A
stage's progress without rows would be an item of the stream's intake log and an epoch of its own; it waits until it
lets a consumer answer something, or until rows come, which carry it. Late progress delays, and changes no answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from millpond.catalog import Catalog, Standing
from millpond.manifests.records import QueryProgress
from millpond.operators.contract import Answering
from millpond.progress import FOREVER, NEVER, StreamProgress


def is_needed(
    catalog: Catalog,
    answering: Mapping[int, Answering],
    progress: Mapping[str, StreamProgress],
    queries: Mapping[str, QueryProgress],
    stream: int,
    known: int,
    bound: int,
) -> bool:
    """Whether progress `bound` of a derived stream, of which `known` was announced, is of use to anybody.

    Arguments:
        answering: what answers each query, by id. progress, queries: as published.

    A stream that nobody reads is told everything: who registers begins where it is. So is one that drops late rows:
    which rows those are is part of its answers.
    """
    if bound >= FOREVER or known <= NEVER or catalog.streams[stream].options.late == "drop":
        return True
    users = list(_users(catalog, stream))
    high = progress.get(str(stream), StreamProgress()).high
    return not users or any(answering[q.id].uses(q, queries.get(str(q.id)), known, bound, high) for q in users)


def _users(catalog: Catalog, stream: int) -> Iterator[Standing]:
    """The queries over a stream, and over streams of its rows."""
    yield from catalog.on_stream(stream)
    for follower in catalog.streams.values():
        if follower.derived is not None and follower.derived.query is None and stream in follower.derived.sources:
            yield from _users(catalog, follower.id)
