"""Late rows that no state covers, for every kind of query: what is asked, the rows, and what all rows make of it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from tests.operators.cases import Asked, Rows
from tests.operators.kinds import over_rows, over_sessions, over_time, pairs_of, relation_of
from tests.oracle import Case, Row, Table, assert_rows_equal
from tests.oracle.derived import answer_rows, stream_table
from tests.oracle.revisions import final_answers
from tests.oracle.row_windows import RowCase
from tests.oracle.sessions import SessionCase
from tests.properties.harness import wanted
from tests.properties.streams import COLUMNS, TYPES
from tests.relations.shapes import GROUPED

S = 1_000_000

#: How often rows come.
STAGES = 3

#: State covers nothing: every late row is mended.
KEPT = "revise_for='0 seconds'"
COUNTS = ("count(*) AS c0", "sum(g) AS c1", "list(n) AS c2")

#: What is asked, by name. Windows are over `s`, whose times are seconds; relations and pairs over `e` and `f`.
WINDOWS: Mapping[str, Asked] = {
    "sliding": over_time(Case(("k AS c3", *COUNTS), 6 * S, 3 * S, group_by=("k",), having="count(*) < 6"), KEPT),
    "sessions": over_sessions(SessionCase(Case(("k AS c3", *COUNTS), group_by=("k",)), 2 * S), KEPT),
    "rows": over_rows(RowCase(Case(COUNTS), rows=3, slide=2, partition=("k",)), KEPT),
}
RELATIONS: Mapping[str, Asked] = {
    "summed": relation_of(GROUPED[0], "ISTREAM", ("[RANGE 5 MICROSECONDS]", "[ROWS 3]", "[NOW]"), KEPT),
    "pairs": pairs_of("left", ("[RANGE 2 MICROSECONDS]", "[NOW]"), KEPT),
}
ASKED = {**WINDOWS, **RELATIONS}

#: A stream of answers that takes back what was revised, and who reads it.
FIRST = Case(("k", "count(*) AS c"), 2 * S, group_by=("k",), having="count(*) < 3")
OVER = Case(("k", "sum(c) AS a", "count(*) AS n"), 6 * S, stream="x", group_by=("k",), origin_us=1)


def batch(stage: int) -> Mapping[str, Rows]:
    """The rows of a stage: new ones in order, and from the second on some that are later than any state."""
    rng = random.Random(stage)
    fresh = [(8 * stage + n / 2, n) for n in range(16)] if stage < STAGES - 1 else []
    late = [(rng.uniform(0, 8 * stage), 20 + n) for n in range(4)] if stage else []
    seconds = tuple(
        Row(int(time * S), 100 * stage + n, dict.fromkeys(TYPES) | {
            "k": rng.choice(["a", "b", None]), "g": rng.randrange(3), "n": 100 * stage + n, "b": rng.random() < 0.7
        })
        for time, n in [*fresh, *late]
    )  # fmt: skip
    found = {"s": seconds}
    for name in "ef":
        new = [4 * stage + n for n in range(5)] if stage < STAGES - 1 else []
        old = [rng.randrange(4 * stage) for _ in range(2)] if stage else []
        found[name] = tuple(
            Row(time, 100 * stage + n, {"a": rng.choice([None, 0, 1]), "b": rng.randrange(3)})
            for n, time in enumerate([*new, *old])
        )
    return found


def setup(names: Iterable[str] = (*ASKED, "over_x")) -> str:
    """The statements that make the streams, and the queries of these names; they can be repeated."""
    script = [f"CREATE STREAM IF NOT EXISTS s ({COLUMNS}) WITH (event_time='ts')"]
    timed = "(ts TIMESTAMP, a INTEGER, b INTEGER) WITH (event_time='ts')"
    script += [f"CREATE STREAM IF NOT EXISTS {name} {timed}" for name in ("e", "f")]
    script += [f"CREATE STREAM IF NOT EXISTS x WITH (revisions='retract', {KEPT}) AS {FIRST.query()}"]
    made = {name: asked.statement(name) for name, asked in WINDOWS.items()}
    for name, asked in RELATIONS.items():  # the oracle calls these streams s and u
        made[name] = asked.statement(name).replace(" s [", " e [").replace(" u [", " f [")
    made["over_x"] = f"CREATE QUERY over_x WITH ({KEPT}) AS {OVER.query()}"
    script += [made[name].replace("CREATE QUERY", "CREATE QUERY IF NOT EXISTS", 1) for name in names]
    return "; ".join(script)


def feed(pond: Any, stage: int) -> None:
    """Let the rows of a stage come in."""
    for name, rows in batch(stage).items():
        values = [{"ts": datetime(1970, 1, 1) + timedelta(microseconds=r.time), **r.values} for r in rows]
        pond.ingest(name, values, key=str(stage))
    pond.drain()


def check(answers: Mapping[str, Any]) -> None:
    """Answers, by the names of their queries, must be those of all rows."""
    rows = {name: [row for stage in range(STAGES) for row in batch(stage)[name]] for name in "sef"}
    inputs = {name: {"s": rows["s"]} if name in WINDOWS else {"s": rows["e"], "u": rows["f"]} for name in ASKED}
    first = answer_rows(FIRST, ("k", "c"), Table(tuple(rows["s"]), TYPES))
    twice = wanted(final_answers(OVER, stream_table(first, {"k": "VARCHAR", "c": "BIGINT"})))
    for name, found in answers.items():
        expected = twice if name == "over_x" else ASKED[name].answer(inputs[name])  # type: ignore[misc]  # all have one
        assert_rows_equal(expected, [tuple(row) for row in found], what=name)
