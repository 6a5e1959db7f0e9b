"""Values of every type as keys and as arguments, in every kind of query, with late rows, a restart and back-fills.

Each type is run with some of the forms, which the seed of the run draws; `deep` runs all.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import millpond
from millpond.testing import VirtualClock
from tests.conftest import Factory
from tests.engine.type_forms import FORMS, LAST, TYPES, Form
from tests.quick import some

#: How many forms a type is run with.
SOME = 4

#: Epochs: rows of each stream as (second, value, v), value one of 'low', 'high', 'null'. The second epoch is late.
EPOCHS = (
    {"s": [(1, "low", 1), (2, "high", 2), (13, "low", 3)], "r": [(1, "low", 1), (2, "null", 2)]},
    {"s": [(3, "high", 4), (4, "null", 5), (4, "low", 6)], "r": [(0, "high", 4), (14, "high", 1)]},
    {"s": [(LAST, "high", 7)], "r": [(LAST, "low", 7)]},
)


class Life:
    """A pond over values of a type, beside a database with all of its rows."""

    def __init__(self, folder: Path, declared: str) -> None:
        self.folder, self.count = folder, 0
        self.clock = VirtualClock(int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000)
        self.pond, self.db = self._opened(), duckdb.connect()
        low, high = TYPES[declared]
        self.values = {"low": f"({low})::{declared}", "high": f"({high})::{declared}", "null": f"NULL::{declared}"}
        self.db.execute("SET TimeZone='UTC'; CREATE SCHEMA ended")
        for stream in "sr":
            self.pond.sql(f"CREATE STREAM {stream} (ts TIMESTAMP, k {declared}, v INTEGER) WITH (event_time='ts')")
            self.db.execute(f"CREATE TABLE {stream} (id INTEGER, ts TIMESTAMP, k {declared}, v INTEGER)")
            ended = f"epoch(ts - TIMESTAMP '2026-01-01') < {LAST}"
            self.db.execute(f"CREATE VIEW ended.{stream} AS SELECT * FROM memory.main.{stream} WHERE {ended}")

    def _opened(self) -> millpond.Pond:
        return millpond.open(str(self.folder), executor="inline", clock=self.clock)

    def again(self) -> None:
        """Open the pond again."""
        self.pond.close()
        self.pond = self._opened()

    def create(self, name: str, form: Form, since: str = "") -> None:
        """Register a form."""
        options = ", ".join(o for o in (form.options, since) if o)
        self.pond.sql(f"CREATE QUERY {name}{f' WITH ({options})' if options else ''} AS {self.filled(form.query)}")

    def filled(self, sql: str) -> str:
        """SQL with the type's values in it."""
        return sql.replace("{low}", self.values["low"]).replace("{high}", self.values["high"])

    def take(self, stream: str, rows: list[tuple[int, str, int]]) -> None:
        """Take rows in; DuckDB says what their values are in Arrow."""
        for second, value, v in rows:
            when = f"TIMESTAMP '2026-01-01' + to_seconds({second})"
            self.db.execute(f"INSERT INTO {stream} VALUES ({self.count}, {when}, {self.values[value]}, {v})")
            self.count += 1
        k = "k::DECIMAL(38, 0) AS k" if "HUGEINT" in self.values["low"] else "k"  # Arrow has no HUGEINT
        sql = f"SELECT ts, {k}, v FROM {stream} WHERE id >= {self.count - len(rows)} ORDER BY id"
        self.pond.ingest(stream, self.db.sql(sql).to_arrow_table())

    def live(self, forms: dict[str, Form]) -> None:
        """All epochs, with a restart between them, and the forms registered once more when the rows are there."""
        for name, form in forms.items():
            self.create(name, form)
        for number, epoch in enumerate(EPOCHS):
            for stream, rows in epoch.items():
                self.take(stream, rows)
            self.clock.advance(2_000_000)
            self.pond.step()
            if number == 0:
                self.again()
        for name, form in forms.items():
            if form.past:
                self.create(f"past_{name}", form, "since='start'")
        self.pond.drain()
        self.clock.advance(60_000_000)  # what waits to go out goes out
        while self.pond.step():
            pass

    def odd(self, name: str, form: Form) -> Iterator[str]:
        """What a registered form answers otherwise than DuckDB."""
        for ask, which in form.asks:
            self.db.execute(f"USE {'ended' if which == 'ended' else 'main'}")
            expected = self.db.sql(self.filled(form.sql)).to_arrow_table()
            answer = self.pond.sql(self.filled(ask.format(name=name, query=form.query, low="{low}", high="{high}")))
            got, right = (self.texts(t, expected.column_names) for t in (answer.table, expected))
            if got != right:
                yield f"{name}, {ask}: {got}, and not {right}"

    def texts(self, given: pa.Table, columns: list[str]) -> list[tuple[str | None, ...]]:
        """Rows as texts, in an order."""
        shown = ", ".join(f'CAST("{c}" AS VARCHAR)' for c in columns)
        return sorted(self.db.sql(f"SELECT {shown} FROM given").fetchall(), key=repr)


def drawn(declared: str) -> dict[str, Form]:
    """The forms that a type is run with."""
    return {name: FORMS[name] for name in some(sorted(FORMS), SOME, declared)}


@pytest.mark.parametrize("declared", TYPES)
def test_a_column_of_any_type(declared: str, tmp_path: Path) -> None:
    life, forms = Life(tmp_path / "pond", declared), drawn(declared)
    try:
        life.live(forms)
        shown = {r["query"]: r["reason"] for r in life.pond.sql("SHOW QUERIES").table.to_pylist() if r["reason"]}
        assert shown == {}
        every = {**forms, **{f"past_{n}": f for n, f in forms.items() if f.past}}
        assert [text for name, form in every.items() for text in life.odd(name, form)] == []
    finally:
        life.pond.close()


@pytest.mark.parametrize("first", [0.0, -0.0])
@pytest.mark.parametrize("key", ["k", "k * 1", "round(k)"])
def test_zero_is_shown_without_a_sign(inline_pond: Factory, first: float, key: str) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k DOUBLE) WITH (event_time='ts')")
    forms: dict[str, Callable[[str], str]] = {
        "windows": lambda k: f"SELECT {k} AS k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY {k}",
        "relation": lambda k: f"SELECT {k} AS k, count(*) AS n FROM s [RANGE UNBOUNDED] GROUP BY {k}",
    }
    for name, form in forms.items():
        pond.sql(f"CREATE QUERY {name} AS {form(key)}")
    for second, value in ((1, first), (2, -first), (3, first), (90, 5.0)):
        pond.ingest("s", [{"ts": f"2026-01-01 00:{second // 60:02d}:{second % 60:02d}", "k": value}])
        pond.step()
    pond.drain()
    for name in forms:
        assert repr(pond.sql(f"SELECT k, n FROM {name} WHERE k = 0").rows()) == "[(0.0, 3)]", name


@pytest.mark.parametrize(
    ("declared", "key", "shown"),
    [
        ("DOUBLE[]", "k", "[([0.0, None], 3)]"),
        ("STRUCT(a DOUBLE, b FLOAT[])", "k", "[({'a': 0.0, 'b': [0.0]}, 3)]"),
        ("MAP(VARCHAR, DOUBLE)", "k", "[([('x', 0.0)], 3)]"),
        ("DOUBLE", "[round(k)]", "[([0.0], 3)]"),
        ("DOUBLE", "{'a': round(k), 'b': [1]}", "[({'a': 0.0, 'b': [1]}, 3)]"),
        ("DOUBLE", "MAP {'a': k * 1}", "[([('a', 0.0)], 3)]"),
    ],
)
def test_zero_within_others_is_shown_without_a_sign(inline_pond: Factory, declared: str, key: str, shown: str) -> None:
    values: dict[str, Callable[[float], Any]] = {
        "DOUBLE": lambda v: v,
        "DOUBLE[]": lambda v: [v, None],
        "STRUCT(a DOUBLE, b FLOAT[])": lambda v: {"a": v, "b": [v]},
        "MAP(VARCHAR, DOUBLE)": lambda v: {"x": v},
    }
    pond = inline_pond()
    pond.sql(f"CREATE STREAM s (ts TIMESTAMP, k {declared}) WITH (event_time='ts')")
    forms = {
        "windows": f"SELECT {key} AS k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY {key}",
        "relation": f"SELECT {key} AS k, count(*) AS n FROM s [RANGE UNBOUNDED] GROUP BY {key}",
    }
    if key == "k":
        forms |= {
            "parts": "SELECT k, count(*) AS n FROM s [PARTITION BY k ROWS 3] GROUP BY k",
            "meeting": "SELECT a.k, count(*) AS n FROM s [ROWS 1] a JOIN s [ROWS 3] b ON a.k = b.k GROUP BY a.k",
        }
    for name, text in forms.items():
        pond.sql(f"CREATE QUERY {name} AS {text}")
    for second, value in ((1, -0.0), (2, 0.0), (3, -0.0)):
        pond.ingest("s", [{"ts": f"2026-01-01 00:00:0{second}", "k": values[declared](value)}])
        pond.step()
    pond.drain(final=True)
    for name in forms:
        assert repr(pond.sql(f"SELECT k, n FROM {name} WHERE n = 3").rows()) == shown, name
