"""Answers to what statements ask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

import pyarrow as pa

from millpond import language as lang
from millpond.answers.adhoc import select_stream
from millpond.answers.adhoc_relations import select_relational
from millpond.answers.describe.archive_listing import show_archive
from millpond.answers.describe.explaining import explained
from millpond.answers.describe.happening import not_ended_note, open_note
from millpond.answers.describe.showing import show
from millpond.answers.expired_history import gone_note, relation_note, said_with
from millpond.answers.fidelity import note_of
from millpond.answers.invocation import invoke
from millpond.answers.nested_windows import select_staged
from millpond.answers.row_queries.selection import evaluate, select_once
from millpond.answers.table_selects import select_relations
from millpond.catalog import Catalog, Registered, Standing
from millpond.commands.answer_commands import AskCopy, AskOnce, AskPlan, AskRows, AskShow, AskStanding, Question
from millpond.commands.execution.table_reading import table_note
from millpond.engine.instruments import Instruments
from millpond.engine.pond_view import PondView
from millpond.sources.local_files import write_file
from millpond.types import (
    GroupScan,
    InnerStream,
    PairsQuery,
    Query,
    RelationQuery,
    RowQuery,
    RowScan,
    RowWindowQuery,
    ScanQuery,
    SessionQuery,
    Staged,
    StandingQuery,
    WindowedQuery,
    WindowQuery,
)
from millpond.types.instants import moment
from millpond.types.plan_nodes import plan_table
from millpond.types.relation_queries import TableInput


def answer(pond: PondView, instruments: Instruments, question: Question) -> tuple[pa.Table | None, str]:
    """The answer to a question, and what there is to say of it."""
    match question:
        case AskOnce(bound):
            return _once(pond, bound)
        case AskCopy(asked, form):
            table, note = _once(pond, asked.bound)
            write_file(table, form)
            return None, "; ".join(n for n in (f"{table.num_rows:,} rows copied to {form.path}", note) if n)
        case AskStanding(standing, statement):
            return _invoked(pond, standing, statement)
        case AskShow(statement, streams):
            if statement.what == "archive":
                return show_archive(pond.archives, streams or pond.catalog.shown_streams()), ""
            return show(pond, instruments, statement.what), ""
        case AskPlan(subject, analyze):
            return plan_table(explained(pond, instruments, subject, analyze)), ""
        case AskRows(columns, rows):
            fields = [pa.field(name, pa.string()) for name in columns]
            values = [pa.array([row[at] for row in rows], pa.string()) for at in range(len(columns))]
            return pa.table(values, pa.schema(fields)), ""
        case _:
            assert_never(question)


def _once(pond: PondView, bound: Query | Staged | ScanQuery | lang.TableQuery) -> tuple[pa.Table, str]:
    """The answer of a SELECT, with a note about queries whose answers are not complete yet."""
    match bound:
        case RowQuery():
            table = select_once(pond, bound).table
            notes = [said_with(pond.archives, table, bound)]
        case WindowQuery():
            table, notes = _of_stream(pond, bound)
            if not table.num_rows:
                notes.append(not_ended_note(pond.archives, bound))
        case RowWindowQuery() | SessionQuery() | GroupScan() | RowScan():
            table, notes = _of_stream(pond, bound)
        case Staged():
            notes = [_unfinished(pond.catalog, [each.answers for each in bound.inner]), _gone(pond, bound.inner)]
            table = select_staged(pond, bound)
        case RelationQuery() | PairsQuery():
            table = select_relational(pond, bound)
            gone = relation_note(pond.archives, bound)
            notes = [note_of(table), gone, table_note(pond.tables, pond.catalog, bound.table_names)]
        case lang.TableQuery():
            read = [*(r.name for r in bound.relations), *(each.answers for each in bound.inner)]
            notes = [_unfinished(pond.catalog, read), _gone(pond, bound.inner, list(bound.asked.values()))]
            table = select_relations(pond, bound)
            if not table.num_rows:
                notes.append(open_note(pond.archives, _standing(pond.catalog, read)))
            notes.append(
                table_note(pond.tables, pond.catalog, [r.name for r in bound.relations if isinstance(r, TableInput)])
            )
        case _:
            assert_never(bound)
    return table, "; ".join(note for note in notes if note)


def _of_stream(pond: PondView, bound: WindowedQuery | ScanQuery) -> tuple[pa.Table, list[str]]:
    """The answer of what reads one stream, and notes."""
    table = select_stream(pond, bound)
    gone = said_with(pond.archives, table, bound)
    return table, [gone, table_note(pond.tables, pond.catalog, bound.table_names)]


def _gone(pond: PondView, inner: Sequence[InnerStream], asked: Sequence[StandingQuery | ScanQuery] = ()) -> str:
    """What is to be said of the past of the streams that are read within an answer."""
    own, inside = [*asked, *(each.query for each in inner if not each.answers)], {each.name for each in inner}
    notes = [_gone_of(pond, query) for query in own if not inside.intersection(query.stream_names)]
    return "; ".join(dict.fromkeys(note for note in notes if note))


def _gone_of(pond: PondView, query: StandingQuery | ScanQuery) -> str:
    match query:
        case RelationQuery() | PairsQuery():
            return relation_note(pond.archives, query)
        case WindowQuery() | RowWindowQuery() | SessionQuery() | GroupScan() | RowScan():
            return gone_note(pond.archives, query)
        case _:
            assert_never(query)


def _standing(catalog: Catalog, names: Iterable[str]) -> list[Standing]:
    """The standing queries that have these names."""
    return [q for name in names if (q := catalog.query(name)) is not None]


def _unfinished(catalog: Catalog, names: Iterable[str]) -> str:
    """What is to be said of queries whose answers are read, and not all there."""
    read = [q for q in _standing(catalog, names) if q.status != "live"]
    notes = [f"{q.definition.name} is {q.status}" + (f": {q.reason}" if q.reason else "") for q in read]
    return f"answers so far; query {', '.join(notes)}" if notes else ""


def _invoked(pond: PondView, standing: Standing | Registered, statement: lang.Invoke) -> tuple[pa.Table, str]:
    """The answer, and for a row query which prefix of its streams it saw."""
    if isinstance(standing, Registered):
        found = evaluate(pond, standing, statement.as_of, statement.begin, statement.end)
        seen = f"as of epoch {found.epoch}, now {moment(found.now)}, watermark {moment(found.watermark)}"
        gone = gone_note(pond.archives, standing.selection) if statement.begin is None else ""
        return found.table, "; ".join(n for n in (seen, note_of(found.table), gone) if n)
    table = invoke(pond, standing, statement.as_of)
    return table, note_of(table)
