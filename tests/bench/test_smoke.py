"""The benchmarks at tiny sizes: their data, their answers, their lines. Spark's own runs are left to `bench` itself."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bench.agreement import differences
from bench.baselines import duckdb_limit
from bench.cases import BASE, CASES, Data, WindowQuery, generate, hundred_queries, sample, table
from bench.common import RunnerFailed, emit, place_files, run_isolated, steady_rate
from bench.profile_epoch import stages

from bench import soak, windows


def naive(rows: pa.Table, query: WindowQuery) -> dict[tuple[int, int | None], tuple[int, float]]:
    """Every window of a query row by row; its filter and key are those used below."""
    answers: dict[tuple[int, int | None], tuple[int, float]] = {}
    slide, span = query.slide * 1_000_000, query.range * 1_000_000
    times = rows["ts"].cast(pa.int64()).to_pylist()
    for ts, k, v in zip(times, rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True):
        if query.where and not v < 0.5:
            continue
        end = ts // slide * slide + slide
        while end - span <= ts:
            count, total = answers.get((end, k if query.key else None), (0, 0.0))
            answers[end, k if query.key else None] = (count + 1, total + v)
            end += slide
    return answers


@pytest.mark.parametrize(
    "query",
    [
        WindowQuery("q", 2, 2),
        WindowQuery("q", 6, 1),
        WindowQuery("q", 6, 4, key=None, where="v < 0.5"),
        WindowQuery("q", 3, 2),
    ],
)
def test_limit_is_right(query: WindowQuery) -> None:
    import duckdb

    rows = table(Data("sparse", keys=400, disorder=2), 3_000, 0)
    connection = duckdb.connect()
    connection.register("source", rows)
    found = connection.sql(f"SELECT epoch_us(e), g, c, s FROM ({query.duckdb('source')})").fetchall()
    expected = naive(rows, query)
    assert {(e, g) for e, g, _, _ in found} == set(expected)
    assert len(found) == len(expected)
    for e, g, c, s in found:
        assert (c, s) == (expected[e, g][0], pytest.approx(expected[e, g][1], rel=1e-9))


def test_data_is_as_described(tmp_path: Path) -> None:
    first, again = (generate(Data("d", 10, 5), tmp_path / name, 2, 2_000) for name in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    assert first[0].stat().st_mtime < first[1].stat().st_mtime
    times = pq.read_table(first[1])["ts"].cast(pa.int64()).to_pylist()
    highest, lag = times[0], 0
    for ts in times:
        highest = max(highest, ts)
        lag = max(lag, highest - ts)
    assert 0 < lag < 5_000_000
    assert times != sorted(times)
    ordered = table(Data("d"), 1_000, 3)["ts"].cast(pa.int64()).to_pylist()
    assert ordered == [BASE + (3_000 + i) * 1_000 for i in range(1_000)]


def test_hundred_queries_differ() -> None:
    queries = hundred_queries()
    assert len({(q.where, q.key, q.range, q.slide) for q in queries}) == len({q.name for q in queries}) == 100
    chosen = sample(queries, 8)
    assert len({q.name for q in chosen}) == 8
    assert len({(q.range, q.slide) for q in chosen}) >= 6
    assert len({q.where for q in chosen}) >= 6


def test_agreement_sees_every_difference(tmp_path: Path) -> None:
    def folder(name: str, rows: list[tuple[int, int | None, int, float]]) -> Path:
        columns = list(zip(*rows, strict=True))
        home = tmp_path / name
        home.mkdir()
        content = {"e": pa.array(columns[0], pa.timestamp("us")), "g": pa.array(columns[1], pa.int64())}
        pq.write_table(pa.table({**content, "c": columns[2], "s": columns[3]}), home / "0.parquet")
        return home

    truth = folder("truth", [(1, 1, 2, 0.5), (1, None, 3, 1.5), (2, 1, 4, 2.5), (9, 1, 1, 1.0)])
    same = folder("same", [(1, None, 3, 1.5 + 1e-12), (1, 1, 2, 0.5), (2, 1, 4, 2.5)])
    assert differences(truth, same) == (3, 0, "")
    assert differences(truth, same, until=9)[:2] == (4, 1)
    assert differences(truth, folder("sum", [(1, 1, 2, 0.5), (1, None, 3, 1.5001), (2, 1, 4, 2.5)]))[1] == 1
    assert differences(truth, folder("count", [(1, 1, 9, 0.5), (1, None, 3, 1.5), (2, 1, 4, 2.5)]))[1] == 1
    assert differences(truth, folder("missing", [(1, 1, 2, 0.5), (2, 1, 4, 2.5)]))[1] == 1
    assert (
        differences(truth, folder("extra", [(1, 1, 2, 0.5), (1, None, 3, 1.5), (1, 7, 1, 0.0), (2, 1, 4, 2.5)]))[1] == 1
    )
    assert (
        differences(truth, folder("twice", [(1, 1, 2, 0.5), (1, 1, 2, 0.6), (1, None, 3, 1.5), (2, 1, 4, 2.5)]))[1] == 1
    )
    (tmp_path / "none").mkdir()
    pq.write_table(pq.read_table(truth / "0.parquet").slice(0, 0), tmp_path / "none" / "0.parquet")
    assert "no closed window" in differences(truth, tmp_path / "none")[2]
    assert differences(truth, tmp_path / "none", until=0) == (0, 0, "")
    assert differences(truth, tmp_path / "none", until=1)[:2] == (2, 2)
    (tmp_path / "empty").mkdir()
    assert differences(truth, tmp_path / "empty")[1] == 1


def test_lines_have_the_common_keys(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"case": "c", "bench": "b", "correct": True, "extra": 1})
    line = json.loads(capsys.readouterr().out)
    first = ["bench", "case", "ratio_native", "ratio_limit", "rows_per_s", "peak_mb", "correct"]
    assert list(line) == [*first, "extra"]
    assert line["ratio_native"] is None


def test_warm_up_is_left_out() -> None:
    assert steady_rate([(10.0, 5), (11.0, 105), (12.0, 205)]) == pytest.approx(100.0)
    with pytest.raises(ValueError, match="one epoch took everything"):
        steady_rate([(10.0, 5)])


def test_limit_runner_and_memory(tmp_path: Path) -> None:
    paths = [str(path) for path in generate(CASES["sliding"].data, tmp_path, 2, 5_000)]
    job = {"case": "sliding", "files": paths, "folder": str(tmp_path / "limit"), "cores": 1, "system": "duckdb"}
    run = run_isolated("bench.baselines", job)
    assert run.result["rows"] == 10_000
    assert run.peak_mb > 10
    direct = duckdb_limit({**job, "folder": str(tmp_path / "again")})
    folders = [Path(result["answers"][0][1]) for result in (run.result, direct)]
    assert differences(*folders)[1] == 0


def test_a_failing_runner_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RunnerFailed, match="without a result"):
        run_isolated("bench.baselines", {"case": "no such case", "system": "duckdb"})


def test_files_appear_whole_and_dated(tmp_path: Path) -> None:
    paths = generate(Data("d"), tmp_path / "data", 2, 10)
    place_files(paths, tmp_path / "input")
    assert [path.name for path in sorted((tmp_path / "input").iterdir())] == [path.name for path in paths]
    assert (tmp_path / "input" / paths[0].name).stat().st_mtime == paths[0].stat().st_mtime


def test_soak_batches_and_flatness() -> None:
    assert soak.batch(3, 1_000, 2_000).equals(soak.batch(3, 1_000, 2_000))
    times = soak.batch(200, 10_000, 20_000)["ts"].cast(pa.int64()).to_pylist()
    assert sum(ts < max(times) - soak.LATENESS * 1_000_000 for ts in times) == 10_000 // soak.LATE_EVERY
    samples = soak.Samples(memory_mb=[100.0] * 30, epoch_s=[0.1] * 15 + [0.1] * 15, files=[100.0] * 20 + [900.0] * 10)
    flat = samples.flatness()
    assert (flat["memory_mb"]["flat"], flat["epoch_s"]["flat"], flat["files"]["flat"]) == (True, True, False)


def test_profile_sums_stages() -> None:
    epochs = [{"rows": 100, "seconds": 1.0, "stages": {"read": 0.8, "job": 0.7, "commit": 0.2}}] * 2
    table = {line["stage"]: line for line in stages(epochs, cores=2)}
    assert table["read"]["share"] == pytest.approx(0.4)
    assert table["(between tasks)"]["seconds"] == pytest.approx(0.6)
    assert table["commit"]["ns_per_row"] == pytest.approx(0.4e9 / 200)
    assert sum(line["share"] for line in table.values()) == pytest.approx(1.0)


def test_millpond_agrees_inline(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--files",
        "3",
        "--rows",
        "9000",
        "--cases",
        "sliding,disorder,tuples,landmark",
        "--skip-native",
        "--executor",
        "inline",
    ]
    assert windows.main(arguments) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["case"], line["correct"], line["epochs"]) for line in lines] == [
        ("sliding", True, 3),
        ("disorder", True, 3),
        ("tuples", True, 3),
        ("landmark", True, 3),
    ]
    assert all(line["answers_compared"] > 100 for line in lines)
