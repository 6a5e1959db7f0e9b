"""Granularity of progress between stages: an announcement that no consumer can use is not handed on (Li 2008, 1.2).

Tucker's Describe (`progress.marks.Describe`) rolls punctuation up to what the consumer needs: a bound between two ends
of its windows closes nothing. Here the operator stands between a stage and the stream that is derived from it. A
stage's progress without rows would be an item of the stream's intake log and an epoch of its own; it waits until it
lets a consumer answer something, or until rows come, which carry it. Late progress delays, and changes no answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from millpond.catalog import Catalog, Standing
from millpond.manifests.quarantine import Failures
from millpond.manifests.records import Published
from millpond.operators.contract import Answering
from millpond.progress import FOREVER, NEVER, StreamProgress


def is_needed(
    failures: Failures, answering: Mapping[int, Answering], published: Published, stream: int, known: int, bound: int
) -> bool:
    """Whether progress `bound` of a derived stream, of which `known` was announced, is of use to anybody.

    Args:
        failures: with the catalog. answering: what answers each query, by id. published: as of now.

    A stream that nobody reads is told everything: who registers begins where it is. So is one that drops late rows:
    which rows those are is part of its answers.
    """
    catalog = failures.catalog
    if bound >= FOREVER or known <= NEVER or catalog.streams[stream].options.late == "drop":
        return True
    derivation = catalog.streams[stream].derived
    if derivation is not None and derivation.own_progress:  # its own rows say how far it is
        return False
    users = list(_users(catalog, stream))
    high = published.progress.get(str(stream), StreamProgress()).high

    def uses(query: Standing) -> bool:
        return answering[query.id].uses(query, published.queries.get(str(query.id)), known, bound, high)

    return not users or any(failures.each(users, uses, otherwise=False))


def _users(catalog: Catalog, stream: int) -> Iterator[Standing]:
    """The queries over a stream, and over streams of its rows."""
    yield from (q for q in catalog.on_stream(stream) if q.status != "quarantined")
    for follower in catalog.streams.values():
        if follower.goes_with_source and stream in follower.sources:
            yield from _users(catalog, follower.id)
