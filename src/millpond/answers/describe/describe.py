"""What SHOW and EXPLAIN and `pond.status()` say: tables of text and numbers about the pond."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

from millpond.answers.adhoc import select_stream
from millpond.answers.coverage import Coverage, coverage_of
from millpond.answers.describe.explain_filters import filter_lines
from millpond.answers.describe.explain_inner import inner_lines, shown_names
from millpond.answers.describe.explain_reduction import analysis_lines, reduction_lines
from millpond.answers.describe.explain_state import state_lines
from millpond.answers.describe.explain_windows import decision_lines, duration, moment, pane_lines, window_line
from millpond.answers.describe.functions import show_functions
from millpond.answers.describe.settings import show_settings
from millpond.answers.describe.synopses import show_synopses
from millpond.answers.describe.tables import show_tables, table_line
from millpond.answers.describe.work import filters_table, work_lines, work_table
from millpond.answers.measuring import decision_for
from millpond.answers.relational import explain_relational
from millpond.answers.row_queries.hot import retained_from
from millpond.archive.planning.ranges import Range
from millpond.archive.retention import keep_of_rows
from millpond.archive.summed.serving import Sums, served
from millpond.catalog import Catalog, Standing
from millpond.engine.control.reporting import memory_bytes
from millpond.engine.core import Core
from millpond.functions import display
from millpond.manifests.quarantine import Failures
from millpond.manifests.records import QueryProgress, StreamCounts
from millpond.operators.windowed.advance import revise_for
from millpond.progress import NEVER, StreamProgress
from millpond.synopses import PanesSpec, is_holistic, spec_of
from millpond.synopses.aggregates.splits import SKETCHES
from millpond.synopses.aggregates.statistics import family_of, kept_by
from millpond.synopses.finish import unnamed
from millpond.synopses.pane_partials import over_all_time
from millpond.synopses.partials.dispatch import Spec
from millpond.synopses.row_partials import RowsSpec
from millpond.types import (
    CountWindow,
    GroupScan,
    RelationalQuery,
    RowScan,
    RowWindowQuery,
    ScanQuery,
    StreamDefinition,
    WindowedQuery,
    WindowQuery,
)


def status(core: Core) -> dict[str, Any]:
    """A snapshot of everything that moves: streams, queries, epochs."""
    with core.lock:
        published, catalog, recent = core.published, core.catalog, list(core.recent)
    streams = {}
    for definition in catalog.shown_streams():
        counts = published.counts.get(str(definition.id), StreamCounts())
        progress = published.progress.get(str(definition.id), StreamProgress())
        runtime = core.streams[definition.id]
        streams[definition.name] = {
            "rows": counts.rows,
            "rate": _rate(recent),
            "watermark": moment(progress.bound),
            "high_watermark": moment(progress.high),
            "late": counts.late,
            "dead": counts.dead,
            "unknown_columns": counts.unknown,
            "bytes": counts.bytes,
            "pending_items": runtime.log.length - published.intake.get(str(definition.id), 0),
            "pending_rows": sum(
                i.rows or 0 for i in runtime.log.items(published.intake.get(str(definition.id), 0), None)
            ),
            "changed_files": list(runtime.source.changed) if runtime.source is not None else [],
            "archive_files": len(runtime.archive.segments),
            "source": _source(catalog, definition),
            "removed_before": moment(NEVER if (gone := runtime.archive.snapshot[1]) is None else gone),
        }
    return {
        "path": core.path,
        "epochs": published.epoch,
        "streams": streams,
        "queries": _window_queries(core),
        "row_queries": core.register.statistics(),
        "synopses": len(catalog.synopses),
        "last_epochs": recent,
        "work": work_table(core),
        "filters": filters_table(core),
        "load": {"drop": core.load.decider.drop, "reason": core.load.decider.reason},
        "epoch_limit_bytes": core.pace.limit,
        "memory_bytes": memory_bytes(),
        "statistics": core.settings.statistics,
        "scheduling": core.settings.scheduling,
        "state_files": len(core.state.segments),
        "state_bytes": sum(s.size for s in core.state.segments),
        "result_files": len(core.results.segments),
    }


def _source(catalog: Catalog, stream: StreamDefinition) -> str:
    """Where a stream's rows come from: 'ingest', a path, or what it is derived from."""
    if stream.derived is None:
        return stream.options.path or stream.options.source
    names = sorted(shown_names(catalog, [catalog.streams[s] for s in stream.derived.sources]))
    return f"{'answers' if stream.derived.query is not None else 'rows'} of {', '.join(names)}"


def _window_queries(core: Core) -> dict[str, dict[str, Any]]:
    with core.lock:
        published, catalog = core.published, core.catalog
    queries, failures = {}, Failures(catalog, "the queries as they are shown")
    for standing in catalog.shown_queries():
        progress_of = published.queries.get(str(standing.id), QueryProgress())
        [coverage] = failures.each([standing], partial(coverage_of, core), Coverage(NEVER, NEVER, progress_of.closed))
        queries[standing.definition.name] = {
            "id": standing.id,
            "version": standing.definition.version,
            "status": standing.status,
            "reason": standing.reason if standing.status == "quarantined" else "",
            "stream": ", ".join(shown_names(catalog, catalog.streams_of(standing))),
            "windows": progress_of.windows,
            "revisions": progress_of.revisions,
            "too_late": progress_of.too_late,
            "closed": moment(progress_of.closed),
            "covered_from": moment(coverage.start),
            "coverage": coverage_text(coverage),
        }
    return queries


def coverage_text(coverage: Coverage) -> str:
    """Whether the windows of a query are whole."""
    return "complete" if coverage.complete else f"partial until {moment(coverage.until)}"


def _rate(recent: list[dict[str, Any]]) -> float:
    busy = [e for e in recent[-8:] if e["rows"]]
    seconds = sum(e["seconds"] for e in busy)
    return round(sum(e["rows"] for e in busy) / seconds, 1) if seconds else 0.0


def show(core: Core, what: str) -> pa.Table:
    """SHOW STREAMS | TABLES | QUERIES | SYNOPSES | PROGRESS | LOAD | SETTINGS | FUNCTIONS."""
    if what == "functions":
        return show_functions(core)
    if what == "load":
        return show_load(core)
    if what == "settings":
        return show_settings(core)
    if what == "watermarks":
        from millpond.answers.describe.watermarks import show_watermarks

        return show_watermarks(core)
    now = status(core)
    if what == "streams":
        rows = [
            {
                "stream": name,
                "source": s["source"],
                "rows": s["rows"],
                "rate": s["rate"],
                "watermark": s["watermark"],
                "high_watermark": s["high_watermark"],
                "late": s["late"],
                "dead_letters": s["dead"],
                "pending": s["pending_items"],
                "changed_files": len(s["changed_files"]),
            }
            for name, s in now["streams"].items()
        ]
        return _table(
            rows,
            {
                "stream": "s",
                "source": "s",
                "rows": "i",
                "rate": "f",
                "watermark": "s",
                "high_watermark": "s",
                "late": "i",
                "dead_letters": "i",
                "pending": "i",
                "changed_files": "i",
            },
        )
    if what == "tables":
        return show_tables(core)
    if what == "queries":
        from millpond.answers.describe.explain_row_queries import show_selections

        windows = show_windows(core)
        return pa.concat_tables([windows, show_selections(core, windows.schema)]) if len(core.register) else windows
    return show_synopses(core)


def show_load(core: Core) -> pa.Table:
    """SHOW LOAD: what `REDUCE load()` drops now, and how it came to that, the newest change first."""
    now = core.load.observe()
    rows = [
        {"since": moment(c.clock), "drop": c.drop, "before": c.before, "reason": c.reason}
        for c in reversed(core.load.changes())
    ]
    if not rows:
        rows = [{"since": "none", "drop": now.drop, "before": now.drop, "reason": now.reason}]
    return _table(rows, {"since": "s", "drop": "f", "before": "f", "reason": "s"})


def show_windows(core: Core) -> pa.Table:
    """The window queries as rows of SHOW QUERIES."""
    rows = [{"query": name, **q} for name, q in _window_queries(core).items()]
    return _table(
        rows,
        {
            "query": "s",
            "id": "i",
            "version": "i",
            "status": "s",
            "reason": "s",
            "stream": "s",
            "windows": "i",
            "revisions": "i",
            "too_late": "i",
            "closed": "s",
            "covered_from": "s",
            "coverage": "s",
        },
    )


def _table(rows: list[dict[str, Any]], kinds: dict[str, str]) -> pa.Table:
    types = {"s": pa.string(), "i": pa.int64(), "f": pa.float64()}
    return pa.table({name: pa.array([r[name] for r in rows], types[kind]) for name, kind in kinds.items()})


def explain(core: Core, query: WindowedQuery | ScanQuery, standing: Standing | None, analyze: bool) -> pa.Table:
    """How a query is answered, a line a row."""
    catalog = core.catalog
    stream = catalog.stream(query.stream)
    assert stream is not None
    names = [f.name for f in query.feeds]
    lines = [f"query over the union of streams {', '.join(names)}" if names else f"query over stream {stream.name}"]
    if standing is not None and (inner := inner_lines(core, standing)):
        lines = inner
    if isinstance(query, ScanQuery):
        lines.append("ad hoc over the archive and live data up to now")
        lines += _filter_and_keys(query)
        lines += _reduced(core, query, stream, standing, analyze)
        retained = retained_from(stream, core.published)
        if isinstance(query, GroupScan):
            everything = unnamed(over_all_time(query, stream.options.time))
            wanted = Range(retained if retained > NEVER else None)
            reading = summary_line(core, stream, everything, spec_of(everything, stream), wanted)
            lines += [] if reading is None else [reading]
        return _lines(lines)
    spec = catalog.synopses[standing.synopsis].spec if standing is not None else spec_of(query, stream)
    if query.lookup is not None:
        lines.append(f"joined: {query.lookup.said}; each row as it comes, before the windows")
        lines += [table_line(core, t.name) for t in query.lookup.tables]
    if isinstance(query, WindowQuery) and isinstance(spec, PanesSpec):
        lines.append(window_line(query.window))
        lines += _filter_and_keys(query)
        lines += pane_lines(query, spec)
        decision = decision_for(core, stream, query, spec, core.streams[stream.id].archive.segments)
        if decision is not None:
            lines += decision_lines(decision, standing is not None)
    elif isinstance(query, RowWindowQuery) and isinstance(spec, RowsSpec):
        lines += explain_row_window(query, spec)
    lines += filter_lines(core, standing, analyze) if standing is not None else []
    for aggregate in query.aggregates:
        if isinstance(spec, RowsSpec):
            break  # every row is kept, whatever the aggregates
        if aggregate.measure not in ("", "estimate"):
            continue  # of the components of estimates
        if (statistic := kept_by(aggregate)) is not None:
            kind = "approximate" if family_of(aggregate.function) in SKETCHES else "holistic"
            lines.append(f"{kind}: {aggregate.function} {statistic}")
        elif is_holistic(aggregate):
            kept = "distinct values" if aggregate.distinct else "values"
            lines.append(
                f"holistic: {aggregate.function} keeps all {kept} of each pane and group; state grows with the rows"
            )
        else:
            lines.append(f"bounded: {aggregate.function} keeps a fixed number of accumulators per pane and group")
    if isinstance(spec, PanesSpec) and spec.single:
        lines.append("LIMIT or DISTINCT needs all groups of a window at once: one shard keeps them")
    lines.append(_sharing(catalog, stream, query, standing))
    lines += _reduced(core, query, stream, standing, analyze)
    removed = core.streams[stream.id].archive.snapshot[1]
    reading = summary_line(core, stream, query, spec, Range())
    if reading is not None:
        lines.append(reading)
    elif removed is not None:
        lines.append(
            f"retention has removed rows before {moment(removed)}: windows that start earlier tell by covered_from"
        )
    if standing is not None:
        late = stream.options.late
        lines.append(
            f"late rows: {late}"
            + (
                f", for {duration(revise_for(query, standing.definition.options))} behind progress"
                if late == "revise"
                else ""
            )
        )
        coverage = coverage_of(core, standing)
        there = "no row is there" if coverage.start <= NEVER else f"rows are there from {moment(coverage.start)} on"
        lines.append(f"windows: {coverage_text(coverage)}; {there}")
        lines.append(
            f"status: {standing.status}{': ' + standing.reason if standing.reason else ''};"
            f" live from epoch {standing.first_epoch}"
        )
    if analyze:
        lines += _analysis(core, standing)
        lines += state_lines(core, standing) if standing is not None else []
    return _lines(lines)


def _reduced(
    core: Core,
    query: WindowedQuery | ScanQuery,
    stream: StreamDefinition,
    standing: Standing | None,
    analyze: bool,
) -> list[str]:
    """The lines about REDUCE; an ad hoc query that is analysed is answered, to tell what was read."""
    if query.reduce is None or standing is not None or not analyze:
        return reduction_lines(core, query, stream, standing)
    return analysis_lines(select_stream(core, query))


def explain_row_window(query: RowWindowQuery, spec: RowsSpec) -> list[str]:
    """The lines of EXPLAIN about a window that ends with rows: what it is, and what is kept for it."""
    window = query.window
    extent = (
        f"the last {window.rows} rows"
        if isinstance(window, CountWindow)
        else f"the rows of the last {duration(window.range)}"
    )
    of = f" of each {', '.join(k.expression for k in window.partition)}" if window.partition else ""
    every = "each row" if window.slide == 1 else f"every {window.slide}th row"
    lines = [f"window: {extent}{of}, ending with {every} by {window.numbered}"]
    if query.where:
        lines.append(f"filter: {query.where}; it chooses among the rows of a window and cannot go below it")
    if query.keys:
        lines.append(f"keys: {', '.join(k.expression for k in query.keys)}")
    tail = f"the last {spec.rows.rows} rows" if spec.rows.rows else f"the rows of the last {duration(spec.rows.range)}"
    each = " of each partition" if window.partition else ""
    lines.append("kept: every row, with the components of its own, as long as late rows can revise windows")
    lines.append(f"kept behind {duration(spec.rows.behind)} before progress: {tail}{each}, and a number{each}")
    lines.append(
        "shards: by partition" if spec.rows.partition else "shards: one has all rows, since numbers run through them"
    )
    return lines


def explain_stream(core: Core, stream: StreamDefinition, analyze: bool) -> pa.Table:
    """Where the rows of a stream come from, and who takes them, a line a row."""
    with core.lock:
        catalog, published = core.catalog, core.published
    lines = [f"stream {stream.name}: {_source(catalog, stream)}"]
    progress = published.progress.get(str(stream.id), StreamProgress())
    lines.append(
        f"event time {stream.options.time}, progress {moment(progress.bound)}; late rows: {stream.options.late}"
    )
    keep = keep_of_rows(stream)
    if keep.time is not None:
        lines.append(f"rows are kept for {duration(keep.time)}")
    if keep.size is not None:
        lines.append(f"rows are kept up to {keep.size:,} bytes")
    if stream.options.archive != "plain":
        lines.append(f"archive: {stream.options.archive}")
    readers = sorted(catalog.readers_of(stream.id))
    lines.append(f"read by {', '.join(dict.fromkeys(readers))}" if readers else "read by no window query and no stream")
    derivation = stream.derived
    if derivation is None:
        return _lines(lines)
    if derivation.query is None:
        lines.append(f"rows of stream {catalog.streams[derivation.sources[0]].name}, an epoch after it")
        lines += [f"filter: {derivation.where}"] if derivation.where else []
        lines.append(f"columns: {', '.join(o.expression for o in derivation.select)}")
        lines += filter_lines(core, stream, analyze)
        return _lines(lines)
    lines.append(f"answers are rows an epoch after they are published; revisions: {derivation.revisions}")
    standing = catalog.queries[derivation.query]
    if delay := standing.definition.options.delay:
        lines.append(f"windows are answered {duration(delay)} behind progress, when they are final")
    query = standing.definition.query
    if isinstance(query, RelationalQuery):
        return pa.concat_tables([_lines(lines), explain_relational(core, query, standing, analyze)])
    return pa.concat_tables([_lines(lines), explain(core, query, standing, analyze)])


def _filter_and_keys(query: WindowedQuery | ScanQuery) -> list[str]:
    lines = [f"filter: {query.where}"] if query.where else []
    if not isinstance(query, RowScan) and query.keys:
        lines.append(f"keys: {', '.join(k.expression for k in query.keys)}")
    return lines


def _sharing(catalog: Catalog, stream: StreamDefinition, query: WindowedQuery, standing: Standing | None) -> str:
    if standing is not None:
        others = sorted(q.definition.name for q in catalog.users(standing.synopsis) if q.id != standing.id)
        others += ["a summary of the stream"] if catalog.kept_by(standing.synopsis) else []
        return (
            f"synopsis {standing.synopsis}, shared with {', '.join(others)}"
            if others
            else f"synopsis {standing.synopsis}, its own"
        )
    needed = spec_of(query, stream)
    fits = next((s for s in catalog.synopses.values() if s.spec.serves(needed, query)), None)
    return f"would share synopsis {fits.owner}" if fits else "would need a synopsis of its own"


def summary_line(core: Core, stream: StreamDefinition, query: WindowedQuery, spec: Spec, wanted: Range) -> str | None:
    """What a summary of the stream stands for when a query reads history; None when none serves."""
    if query.feeds or spec.weighted:
        return None
    with core.pinned():
        found = served(core.archives, stream, Sums(spec, (query,)), wanted, make=False)
    if found is None:
        return None
    rows = sum(s.rows for s in found.entries)
    line = f"history from summary({found.summary.query}): {len(found.entries)} entries with {rows} partials"
    line += f", {found.settled} of them in place of rows that are gone" if found.settled else ""
    line += f"; {len(found.left)} files with {sum(s.rows for s in found.left)} rows are read" if found.left else ""
    if found.removed is not None:
        line += f"; nothing is left before {moment(found.removed)}: windows that start earlier tell by covered_from"
    return line


def _analysis(core: Core, standing: Standing | None) -> list[str]:
    recent = [e for e in core.recent if e["rows"]] or list(core.recent)
    if not recent:
        return ["no epoch has run since the pond was opened"]
    lines = [
        f"last {len(recent)} epochs: {sum(e['rows'] for e in recent)} rows, {sum(e['seconds'] for e in recent):.3f} s"
    ]
    names = sorted({name for e in recent for name in e["stages"]})
    lines += [f"  {name}: {sum(e['stages'].get(name, 0.0) for e in recent):.3f} s" for name in names]
    if standing is not None:
        lines += work_lines(core, standing)
        progress = core.published.queries.get(str(standing.id), QueryProgress())
        lines.append(
            f"rows reported: {progress.windows}, revised: {progress.revisions}, rows too late: {progress.too_late}"
        )
    return lines


def _lines(lines: list[str]) -> pa.Table:
    return pa.table({"plan": pa.array([display(line) for line in lines])})
