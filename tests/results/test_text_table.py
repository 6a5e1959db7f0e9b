"""What is printed of a statement's result, and SHOW FUNCTIONS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import millpond
from millpond.support.texts.text_table import COLUMNS, LETTERS, ROWS, text_table


def test_results_print_as_messages_and_tables_and_functions_are_shown(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "p", executor="inline") as pond:
        made = pond.sql("CREATE STREAM s (ts TIMESTAMP, k INTEGER, name TEXT) WITH (event_time='ts')")
        assert str(made) == repr(made) == made.message
        pond.register_function("odd", lambda k: bool(k % 2), arguments=["INTEGER"], cost=3)
        pond.register_function(
            "plus", lambda a, b: a, arguments=["INTEGER", "DOUBLE"], returns="INTEGER", vectorised=True
        )
        pond.sql("CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 HOUR] WHERE odd(k)")
        pond.sql("CREATE QUERY rows AS SELECT k FROM s WHERE odd(k)")
        assert str(pond.sql("SHOW FUNCTIONS")).splitlines() == [
            "2 rows, 6 columns",
            "┌──────────┬─────────────────┬─────────┬──────┬────────────┬─────────┐",
            "│ function │ arguments       │ returns │ cost │ vectorised │ queries │",
            "├──────────┼─────────────────┼─────────┼──────┼────────────┼─────────┤",
            "│ odd      │ INTEGER         │ BOOLEAN │ 3    │ false      │ q, rows │",
            "│ plus     │ INTEGER, DOUBLE │ INTEGER │ NULL │ true       │ NULL    │",
            "└──────────┴─────────────────┴─────────┴──────┴────────────┴─────────┘",
        ]
        assert str(pond.sql("SELECT ts, k FROM s")).startswith("0 rows, 2 columns")
        plan = pond.sql("EXPLAIN q")
        assert str(plan).splitlines() == [line for (line,) in plan.rows()] and len(plan.rows()) > ROWS


def test_synopses_tell_windows_as_they_are_written(tmp_path: Path) -> None:
    berlin = "SINCE '06:00:00' DAILY ZONE 'Europe/Berlin' SLIDE 1h"
    dated = "SINCE TIMESTAMP '2026-01-01 06:00:00' EVERY 2h SLIDE 1h"
    with millpond.open(tmp_path / "p", executor="inline") as pond:
        pond.sql(f"""
            CREATE STREAM s (ts TIMESTAMP, k INTEGER) WITH (event_time='ts');
            CREATE QUERY a AS SELECT count(*) [RANGE 2h SLIDE 1h] AS n, count(*) [RANGE ALL {berlin}] AS m FROM s;
            CREATE QUERY b AS SELECT count(*) AS n FROM s [RANGE ALL {dated}];
            CREATE QUERY c AS SELECT PAIRS(x.k) FROM s [RANGE 1h OPEN] x JOIN s [NOW] y ON x.k = y.k;
            CREATE QUERY d AS SELECT PAIRS(x.k) FROM s x JOIN s [RANGE TUMBLING 30s] y ON x.k = y.k;
        """)
        told = "; ".join(pond.sql("SHOW SYNOPSES").to_arrow().column("views").to_pylist())
    assert f"a: [RANGE 2h SLIDE 1h] and [RANGE ALL {berlin}]" in told
    assert f"b: [RANGE ALL {dated}]" in told
    assert "c: [RANGE 1h OPEN]" in told
    assert "d: [RANGE TUMBLING 30s]" in told


def test_long_and_wide_tables_are_cut_in_the_middle() -> None:
    count = ROWS + 3
    table = pa.table({f"c{n}": [f"{n}.{r}\n{'x' * 50}" for r in range(count)] for n in range(COLUMNS + 2)})
    shown = text_table(table, "a note").splitlines()
    assert shown[0] == f"{count} rows, {COLUMNS + 2} columns" and shown[-1] == "a note"
    assert len(shown) == ROWS + 7 and len(set(map(len, shown[1:-1]))) == 1
    cells = [[c.strip() for c in line.strip("│").split("│")] for line in shown if line.startswith("│")]
    assert cells[0] == ["c0", "c1", "c2", "c3", "…", "c6", "c7", "c8", "c9"]
    assert {len(c) for c in cells[1]} == {1, LETTERS} and cells[1][0].startswith("0.0 xxx")
    assert [row[0].split()[0] for row in cells[1:]] == [
        *(f"0.{n}" for n in range(5)),
        "…",
        *(f"0.{n}" for n in range(8, 13)),
    ]
    assert text_table(pa.table({})) == "0 rows, 0 columns"


def test_what_show_gives_is_printed_whole(inline_pond: Any) -> None:
    pond = inline_pond()
    names = [f"q{n}_{'x' * LETTERS}" for n in range(ROWS + 2)]
    pond.sql("CREATE STREAM s (ts TIMESTAMP)")
    pond.sql("".join(f"CREATE QUERY {n} AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 MINUTE];" for n in names))
    shown = str(pond.sql("show QUERIES"))
    assert "…" not in shown and all(name in shown for name in (*names, "coverage", "revisions"))
