"""SHOW QUERIES: window queries, relations and row queries, whole or page by page."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Standing
from millpond.catalog.catalogs import Catalogs
from millpond.engine.pond_view import PondView
from millpond.manifests.quarantine import Failures
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.registry import answering_kind
from millpond.operators.windowed.coverage import Coverage, coverage_of
from millpond.progress import NEVER
from millpond.types.instants import moment

_WINDOWS = pa.schema(
    [
        ("query", pa.string()),
        ("id", pa.int64()),
        ("version", pa.int64()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("stream", pa.string()),
        ("rows", pa.int64()),
        ("revisions", pa.int64()),
        ("too_late", pa.int64()),
        ("closed", pa.string()),
        ("covered_from", pa.string()),
        ("coverage", pa.string()),
    ]
)


def show_queries(pond: PondView) -> pa.Table:
    """All standing queries, a row each."""
    windows = show_windows(pond)
    return (
        pa.concat_tables([windows, show_selections(pond.archives.catalogs, windows.schema)])
        if len(pond.register)
        else windows
    )


def window_queries(pond: PondView) -> dict[str, dict[str, Any]]:
    """What is known of each window query and relation, by name."""
    with pond.lock:
        published, catalog = pond.published, pond.catalog
    queries, failures = {}, Failures(catalog, "the queries as they are shown")

    def covered(standing: Standing) -> Coverage:
        archives = [pond.streams[s.id].archive.snapshot for s in catalog.streams_of(standing)]
        known = published.queries.get(str(standing.id), QueryProgress())
        kind = answering_kind(standing.definition.query)
        return coverage_of(standing, kind.covered(known), known.closed, archives)

    for standing in catalog.shown_queries():
        progress_of = published.queries.get(str(standing.id), QueryProgress())
        [coverage] = failures.each([standing], covered, Coverage(NEVER, NEVER, progress_of.closed))
        queries[standing.definition.name] = {
            "id": standing.id,
            "version": standing.definition.version,
            **_state(standing, pond.unreadable.reasons.get(standing.id, "")),
            "stream": ", ".join(catalog.shown_names(catalog.streams_of(standing))),
            "rows": progress_of.windows,
            "revisions": progress_of.revisions,
            "too_late": progress_of.too_late,
            "closed": moment(progress_of.closed),
            "covered_from": moment(coverage.start),
            "coverage": _said(standing, coverage, progress_of),
        }
    return queries


def _state(standing: Standing, unreadable: str) -> dict[str, str]:
    """Whether it answers, and why not. unreadable: why its answers could not be read when they were asked for last."""
    if standing.status == "quarantined" or not unreadable:
        return {"status": standing.status, "reason": standing.reason if standing.status == "quarantined" else ""}
    return {"status": "unreadable", "reason": unreadable}


def _said(standing: Standing, coverage: Coverage, known: QueryProgress) -> str:
    """What its answers lack, in words."""
    if standing.status == "quarantined":
        return f"nothing after {moment(known.closed)}" if known.closed > NEVER else "nothing is answered"
    said = [] if coverage.complete else [str(coverage)]
    if known.owed:
        said.append("late rows are being counted")
    if known.too_late:
        said.append(f"{known.too_late} late row{'s' if known.too_late > 1 else ''} left out")
    if known.missed:
        said.append("rows left out that came after retention had removed their neighbours")
    return "; ".join(said) or str(coverage)


def show_windows(pond: PondView) -> pa.Table:
    """The window queries as rows of SHOW QUERIES."""
    rows = [{"query": name, **q} for name, q in window_queries(pond).items()]
    return pa.Table.from_pylist(rows, _WINDOWS)


def list_queries(pond: PondView, after: int = -1, most: int = 1000, prefix: str = "") -> tuple[pa.Table, int | None]:
    """A page of SHOW QUERIES, by ascending id; only the register's entries of that page are looked at.

    Arguments:
        after: only larger ids. most: at most so many. prefix: only names that begin so.
    Returns: the page, and where the next one goes on; None: there is none.
    """
    parts = [_chosen(show_windows(pond), after, prefix)]
    schema, found, at = parts[0].schema, 0, max(after, 0)
    step = most + 1 if not prefix else max(most + 1, 10_000)
    while found <= most:
        listed = show_selections(pond.archives.catalogs, schema, at, step)
        if not listed.num_rows:
            break
        at = listed["id"][-1].as_py()
        parts.append(_chosen(listed, after, prefix))
        found += parts[-1].num_rows
        if listed.num_rows < step:
            break
    table = pa.concat_tables(parts).sort_by("id")
    page = table.slice(0, most)
    return page, page["id"][-1].as_py() if page.num_rows < table.num_rows else None


def _chosen(listed: pa.Table, after: int, prefix: str) -> pa.Table:
    return listed.filter(pc.and_(pc.greater(listed["id"], after), pc.starts_with(listed["query"], prefix)))


def show_selections(catalogs: Catalogs, schema: pa.Schema, after: int = 0, most: int | None = None) -> pa.Table:
    """The row queries as rows of SHOW QUERIES, whose schema is given; what windows have and they do not is NULL.

    Arguments:
        after: only larger ids. most: at most so many.
    """
    listed = catalogs.register.listing(after=after, most=most)
    known_streams = catalogs.catalog.streams.values()
    ids = pa.array([s.id for s in known_streams], pa.int64())
    streams = pa.array([s.name for s in known_streams], pa.string())
    first = streams.take(pc.index_in(listed["stream"].cast(pa.int64()), ids).combine_chunks())
    second = streams.take(pc.index_in(listed["second"].cast(pa.int64()), ids).combine_chunks())
    known_names = {s.id: s.name for s in known_streams}
    rest = [None if o is None else ", ".join(known_names.get(s, "") for s in o) for o in listed["others"].to_pylist()]
    both = pc.binary_join_element_wise(first, second, pa.array(rest, pa.string()), ", ", null_handling="skip")
    known = {"query": listed["name"], "id": listed["id"], "status": listed["status"], "stream": both}
    columns = [known[f.name] if f.name in known else pa.nulls(listed.num_rows, f.type) for f in schema]
    return pa.table(columns, schema=schema)
