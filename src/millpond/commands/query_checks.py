"""What options, and which reductions, queries of a kind can have: what has no meaning for one is refused."""

from __future__ import annotations

from typing import Protocol

from millpond.operators.contract import Answering
from millpond.operators.registry import kinds_answering
from millpond.support.errors import Refusal
from millpond.types import STATUS, QueryOptions, ScanQuery, Staged, StandingQuery, StreamDefinition


class Lookup(Protocol):
    """What a check must know of the names that there are."""

    def lookup(self, name: str) -> object:
        """The definition that has this name, or None."""


def check_options(schema: Lookup, asked: StandingQuery | Staged | ScanQuery, options: QueryOptions) -> None:
    """Refuse options that have no meaning for a query of its kind, or over its streams: Refusal."""
    query = asked.query if isinstance(asked, Staged) else asked
    check_reduction(query)
    if options.materialize != "auto":
        raise Refusal("'materialize' is for row queries; the state of a window query is always kept", "materialize")
    streams = [f for f in map(schema.lookup, query.stream_names) if isinstance(f, StreamDefinition)]
    kinds = kinds_answering(query)  # none of what is asked once, over the rows of a stream
    for kind in kinds:
        _check_meaning(kind, options)
    if options.empty == "report" and any(s.takes_back for s in streams):
        labels = ", ".join(s.label for s in streams)
        raise Refusal(f"empty='report' is not available over {labels}, whose rows take others back", "empty")
    if query.reduced and options.state != "eager":
        raise Refusal(f"state='{options.state}' does not go with REDUCE, whose state has weights", "state", ("REDUCE",))
    for kind in kinds:
        kind.check(query, options, streams)
    _check_idle(options, query.of_instants or isinstance(asked, Staged) or any(s.is_inner for s in streams))
    taken = next((o.name for o in query.select if o.name.lower() == STATUS), None)
    if options.early is not None and taken is not None:
        raise Refusal(
            f"with 'early' answers have a column {STATUS} of their own", "early", (taken,), f"{taken} AS another name"
        )


def _check_meaning(kind: type[Answering], options: QueryOptions) -> None:
    """Refuse options that mean nothing to a kind of operators."""
    plain = QueryOptions()
    for name, reason in kind.refuses.items():
        if (value := getattr(options, name)) != getattr(plain, name):
            raise Refusal(reason.format(value=value), name)


def _check_idle(options: QueryOptions, joined: bool) -> None:
    """Refuse options that would change nothing."""
    plain = QueryOptions()
    idle = {
        "is for flush='slow' and 'lazy'": ("flush_delay", "flush_windows") if options.flush == "at once" else (),
        "is for relations and joins": () if joined else ("held_rows", "memory_rows"),
        "is for empty='report'": ("fill", "known_for") if options.empty != "report" else (),
        "does not go with adapt='off'": (
            ("adapt_probability", "adapt_window", "adapt_alpha", "adapt_budget") if options.adapt == "off" else ()
        ),
    }
    for reason, names in idle.items():
        for name in names:
            if getattr(options, name) != getattr(plain, name):
                raise Refusal(f"'{name}' {reason}", name)


def check_reduction(query: StandingQuery | ScanQuery) -> None:
    """Refuse to see the past as sums where an answer does not follow from them: Refusal."""
    if query.reduced and not query.estimated and (not query.adds_up or query.union_names):
        raise Refusal(
            "REDUCE BY INTERVAL sees the past as sums over intervals: it is for aggregates of one stream, over windows"
            " of time or over everything",
            words=("REDUCE",),
            expected="REDUCE sample(0.9), which leaves rows out",
        )
