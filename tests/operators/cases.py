"""Cases: streams with queries over them, the rows of these streams, and the ways in which rows may arrive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from tests.oracle import Row
from tests.oracle.case import span

Rows = Sequence[Row]

#: Rows of answers, as the oracle's comparison takes them.
Answer = list[tuple[Any, ...]]

#: What an epoch takes: by stream, tasks of items of rows.
Epoch = dict[str, list[list[Rows]]]


@dataclass(frozen=True)
class Heard:
    """How far streams are at a moment.

    now: NOW (microseconds). bounds: of each stream what it brings no more of. ended: all streams have.
    """

    now: int
    bounds: Mapping[str, int]
    ended: bool


@dataclass(frozen=True)
class Asked:
    """Something that is computed.

    Attributes:
        text: the SELECT. what: it makes, a query or a stream. options: as SQL.
        revises: it revises what it has answered.
        answer: what it has answered in the end when these were the rows of the streams, by the definitions alone;
            None: the oracle does not know.
        reads: streams. invoked: what INVOKE gives of NOW, or of an instant (microseconds).
        once: what its text gives when it is asked once. Of both None says that the oracle does not know.
    """

    text: str
    answer: Callable[[Mapping[str, Rows]], Answer] | None = None
    options: tuple[str, ...] = ()
    what: str = "QUERY"
    revises: bool = True
    reads: tuple[str, ...] = ("s",)
    invoked: Callable[[Mapping[str, Rows], Heard, int | None], Answer | None] | None = None
    once: Callable[[Mapping[str, Rows], Heard], Answer | None] | None = None

    def statement(self, name: str) -> str:
        """The statement that makes it."""
        options = f" WITH ({', '.join(self.options)})" if self.options else ""
        return f"CREATE {self.what} {name}{options} AS {self.text}"


@dataclass(frozen=True)
class Case:
    """What one life of a pond is about.

    Attributes:
        streams: columns, by name. asked: what is computed over them. options: of the streams, as SQL.
        rows: of each stream, in order of intake; event times in microseconds. unit: of their distances.
        lateness: how far a row may lag behind (microseconds). late: what those do that lag further.
        in_order: rows come in this order only, else in any that the streams announce.
        beside: a further statement.
    """

    streams: Mapping[str, str]
    asked: tuple[Asked, ...]
    rows: Mapping[str, Rows]
    unit: int = 1
    lateness: int = 0
    late: str = "revise"
    options: str = ""
    in_order: bool = False
    beside: str = ""

    @property
    def script(self) -> str:
        """Makes the streams and what is computed over them."""
        options = f"event_time='ts', late='{self.late}'{self.options}"
        options += f", lateness='{span(self.lateness).lower()}'" if self.lateness else ""
        made = [f"CREATE STREAM {name} ({columns}) WITH ({options})" for name, columns in self.streams.items()]
        return "; ".join([*made, *(a.statement(f"q{i}") for i, a in enumerate(self.asked)), self.beside])

    def limited(self, revise_for: int) -> Case:
        """The same, but that queries revise for so long only (microseconds): what they keep is less, too."""
        limit = f"beyond='drop', revise_for='{span(revise_for).lower()}'"
        asked = tuple(replace(a, options=(*a.options, limit)) if a.revises else a for a in self.asked)
        return replace(self, asked=asked)

    @property
    def at_once(self) -> list[Epoch]:
        """All rows as one item each, in one epoch."""
        return [{name: [[rows]] for name, rows in self.rows.items() if rows}]

    def expected(self) -> Mapping[str, Answer]:
        """What has been answered in the end, of what the oracle knows."""
        return {f"q{i}": a.answer(self.rows) for i, a in enumerate(self.asked) if a.answer is not None}


@st.composite
def arrivals(draw: st.DrawFn, case: Case) -> list[Epoch]:
    """Another way for the rows of a case to arrive: their order, and how they are cut into epochs, tasks and items."""
    epochs: list[Epoch] = [{} for _ in range(draw(st.sampled_from((2, 3, 4, 5, 4))))]
    for name, rows in case.rows.items():
        ordered = rows if case.in_order else draw(orders(rows, case.lateness if case.late == "drop" else None))
        for epoch, part in zip(epochs, draw(cuts(ordered, len(epochs))), strict=True):
            if part:
                tasks = draw(cuts(part, draw(st.integers(1, 2))))
                epoch[name] = [draw(cuts(task, draw(st.integers(1, 2)))) for task in tasks]
    return epochs


@st.composite
def cuts(draw: st.DrawFn, rows: Rows, number: int) -> list[Rows]:
    """Rows as that many runs of about the same length, some of which may be empty."""
    moves = [draw(st.integers(-2, 2)) for _ in range(number - 1)]
    places = [len(rows) * place // number + move for place, move in enumerate(moves, 1)]
    bounds = [0, *sorted(min(len(rows), max(0, place)) for place in places), len(rows)]
    return [rows[low:high] for low, high in pairwise(bounds)]


@st.composite
def orders(draw: st.DrawFn, rows: Rows, lateness: int | None) -> Rows:
    """Rows in another order, in which rows of equal times keep theirs.

    Args:
        lateness: how far a row may lag behind those before it (microseconds); None: any order.
    """
    if lateness is None:
        places = draw(st.permutations(range(len(rows))))
    else:
        delays = draw(st.lists(st.integers(0, lateness), min_size=len(rows), max_size=len(rows)))
        places = sorted(range(len(rows)), key=lambda place: rows[place].time + delays[place])
    waiting: dict[int, list[Row]] = {}
    for row in rows:
        waiting.setdefault(row.time, []).append(row)
    return [waiting[rows[place].time].pop(0) for place in places]
