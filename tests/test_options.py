"""Every option and setting, whatever way it comes in: the same value, or the same error."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructType, TimestampNTZType

import millpond
from millpond.cli.session import parse_pairs, parse_settings
from millpond.language import parse
from millpond.server.serve import serving
from millpond.sources.frames import create_statement
from millpond.support.errors import MillpondError, SourceError, StatementError
from millpond.types import QueryOptions, from_json, to_json
from millpond.types.options import (
    DerivedTerms,
    Limits,
    Option,
    OptionFault,
    Settings,
    StreamTerms,
    TableTerms,
    derived_options,
    live,
    options_of,
)
from millpond.types.options.stream_values import (
    Allowance,
    ArchiveDesign,
    AskedOperators,
    Delimiter,
    Marks,
    Module,
    Reload,
    Retention,
    StorePlace,
    TimeFormat,
)
from millpond.types.options.value_kinds import (
    Boolean,
    Choice,
    Fills,
    Kind,
    Modules,
    Number,
    Span,
    Start,
    Text,
    Whole,
    text_of,
)
from tests.quick import quick_folder
from tests.server.conftest import Raw

WINDOWS = "SELECT k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k"
#: A query that can have the option; others can be had by windows with groups.
TEXTS = {
    "materialize": "SELECT v FROM s WHERE v > 1",
    "every": "SELECT RSTREAM(v) FROM s [RANGE 10 SECONDS]",
    "held_rows": "SELECT ISTREAM(v) FROM s [RANGE 10 SECONDS]",
    "memory_rows": "SELECT ISTREAM(v) FROM s [RANGE 10 SECONDS]",
}
#: What has to be said beside an option.
BESIDE = {
    "flush_delay": {"flush": "lazy"},
    "flush_windows": {"flush": "lazy"},
    "known_for": {"empty": "report"},
    "fill": {"empty": "report"},
}
SCRIPT = "CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts')"

#: What no option can be, but for those that are texts.
NOTHING = ["", "what is this", "-1", "nan", "é", "1; DROP STREAM s", "x" * 200, -1, 1e400, float("nan"), Decimal("-3")]
#: What is no value of Python or JSON that an option has.
STRANGE = [[], {}, {"a": 1}, [1, 2], object(), b"1", ...]


def good(kind: Kind[Any]) -> list[Any]:
    """Values that a kind takes, as SQL has them and as Python and JSON do."""
    match kind:
        case Choice():
            return [*kind.words, kind.words[0].upper(), f" {kind.words[-1]} "]
        case Boolean():
            return ["true", "FALSE", "on", "off", "1", "0", True, False]
        case Whole():
            return [kind.least, str(kind.least), kind.least + 7, str(kind.most), kind.most]
        case Number():
            edges = [1.0, "1", 1, "0.25", 0.25, "1e-3", kind.most] + ([] if kind.above else [0, "0", 0.0])
            return edges + (["inf", float("inf")] if kind.unbounded else [])
        case Reload():
            return ["on change", "NEVER", "10 minutes", "on_change"]
        case Retention():
            return ["30d", "forever", "FOREVER"]
        case Span():
            return ["10 s", "1 hour 30 minutes", "00:01:30", "90s"] + (["0 s"] if kind.zero else [])
        case Start():
            return ["start", "START", "2024-05-01", "2024-05-01 12:00:00", "2024-05-01T12:00:00+02:00"]
        case Fills():
            return ["null", "0", 0, "PREVIOUS", "linear , n= null", "n = 0"]
        case Modules():
            return ["sqlite3", "sqlite3, psycopg", " a.b ,c"]
        case Allowance():
            return ["5s", "100 rows", "auto", "p99", "p99.9", "0 s"]
        case Delimiter():
            return [",", ";", "\\t", "|"]
        case ArchiveDesign():
            return ["plain", "replicate(0.5)", "RANDOMIZE(8)", "modify keep 3d"]
        case AskedOperators():
            return ["last_row(k, 2 hours)", "A + b( 1,2 )"]
        case StorePlace():
            return ["s3://bucket/folder/", "gs://b"]
        case Marks():
            return ["column:until", "record: k = 'end'"]
        case Module():
            return ["sqlite3", "a.b"]
        case TimeFormat():
            return ["s", "ms", "ISO", "%d.%m.%Y %H:%M"]
        case Text():
            return ["a", "a b", "7"]
    raise AssertionError(kind)


def bad(kind: Kind[Any]) -> list[Any]:
    """Values that a kind does not take."""
    match kind:
        case Text():
            return []
        case AskedOperators():
            return ["what is this", "-1", "1; DROP STREAM s", "a(", "a + ", "a(b(c))"]
        case Delimiter():
            return ["", "ab", '"', "\n"]
        case Choice():
            return [*NOTHING, kind.words[0] + "x", 0.5, True]
        case Boolean():
            return [*NOTHING, "yes", 2, 0.5]
        case Whole():
            return [*NOTHING, kind.least - 1, kind.most + 1, 1.5, "1.5", "1e3", True]
        case Number():
            return [*NOTHING, 1e10, "0x10", True, *([0, "0", 0.0] if kind.above else [])]
        case Retention() | Reload() | Span():
            return [
                *NOTHING,
                "5",
                "2 months",
                "0 s"[: 0 if getattr(kind, "zero", False) else 3],
                "9e9 weeks",
                0.5,
                True,
            ]
        case Start():
            return [*(b for b in NOTHING if b != -1), "2024-13-01", "yesterday", 0.5, True]
        case Fills():
            return [*NOTHING, "n", "n =", "0, 0", "n = 0, N = null", 1, True]
        case Modules() | Module():
            return ["a b", "os; rm", "1x"]
        case _:
            return [b for b in NOTHING if isinstance(b, str)]


def literal(value: Any) -> str | None:
    """A value as SQL has it; None: only Python and JSON have it."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    return f"'{value}'" if isinstance(value, float | Decimal) else None


def refused(error: BaseException) -> str:
    """An error as it is said whatever way the value came in."""
    if isinstance(error, StatementError):
        return str(OptionFault(error.message, error.expected, error.nearest))
    return str(error)


def tried(way: Callable[[], Any]) -> Any:
    """The value that a way gives, or what it is refused with."""
    try:
        return way()
    except MillpondError as error:
        return refused(error)


def said(option: Option, value: Any) -> Any:
    """The value that there should be, or what is refused."""
    try:
        return option.read(value)
    except OptionFault as fault:
        return str(fault)


@pytest.fixture(scope="module")
def pond() -> Iterator[Any]:
    with quick_folder() as path, millpond.open(path / "pond", executor="inline") as opened:
        opened.sql(SCRIPT)
        yield opened


@pytest.fixture(scope="module")
def url(pond: Any) -> Iterator[str]:
    with serving(pond) as found:
        yield found


def kept(pond: Any, number: int, name: str) -> Any:
    """What a pond knows of an option of a query, which is dropped then."""
    handle = pond.query(number)
    found = handle.info()["options"][name]
    handle.drop()
    return found


@pytest.mark.parametrize("name", options_of(QueryOptions))
def test_options_of_queries(pond: Any, url: str, name: str) -> None:
    option = options_of(QueryOptions)[name]
    text = TEXTS.get(name, WINDOWS)
    beside = BESIDE.get(name, {})
    written = "".join(f"{other} = '{value}', " for other, value in beside.items())
    raw, remote = Raw(url), millpond.connect(url)

    def by_sql(value: str) -> Any:
        pond.sql(f"CREATE QUERY q WITH ({written}{name} = {value}) AS {text}")
        return kept(pond, pond.query("q").id, name)

    def by_alter(value: str) -> Any:
        pond.register(text, "q", **beside)
        try:
            pond.sql(f"ALTER QUERY q SET {name} = {value}")
            return pond.query("q").info()["options"][name]
        finally:
            pond.query("q").drop()

    def by_keyword(value: Any) -> Any:
        return kept(pond, pond.register(text, **beside, **{name: value}).id, name)

    def by_client(value: Any) -> Any:
        return kept(pond, remote.register(text, **beside, **{name: value}).id, name)

    def by_http(value: Any) -> Any:
        reply = raw("POST", "/v1/queries", {"query": text, "options": {**beside, name: value}})
        if reply.status == 201:
            return kept(pond, reply.json["id"], name)
        assert reply.status in (400, 409) and reply.json["error"] == "QueryError"
        return reply.json["message"]

    for value in [*good(option.kind), *bad(option.kind), *STRANGE]:
        wanted = said(option, value)
        assert tried(lambda value=value: by_keyword(value)) == wanted, value
        assert tried(lambda value=value: by_client(value)) == wanted, value
        if isinstance(value, str | int) or (isinstance(value, float) and abs(value) < 1e9):
            assert tried(lambda value=value: by_http(value)) == wanted, value
        if ((sql := literal(value)) is not None and not isinstance(option.kind, Span | Start)) or isinstance(
            value, str
        ):
            assert tried(lambda sql=sql: by_sql(sql)) == wanted, value
            if option.live and name not in ("early", "flush"):  # what changes the answers' columns cannot change
                assert tried(lambda sql=sql: by_alter(sql)) == wanted, value
    remote.close()


def test_spans_and_instants_are_values_of_python_and_json(pond: Any, url: str) -> None:
    noon = dt.datetime(2024, 5, 1, 12)
    for given, name, wanted in (
        (dt.timedelta(minutes=2), "revise_for", 120_000_000),
        (120_000_000, "revise_for", 120_000_000),
        (noon, "since", 1_714_564_800_000_000),
        (noon.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))), "since", 1_714_557_600_000_000),
        (1_714_564_800_000_000, "since", 1_714_564_800_000_000),
        (-1, "since", -1),
        (None, "since", None),
    ):
        assert kept(pond, pond.register(WINDOWS, **{name: given}).id, name) == wanted
        with millpond.connect(url) as remote:
            assert kept(pond, remote.register(WINDOWS, **{name: given}).id, name) == wanted
    for given in (dt.timedelta(0), dt.timedelta(-1), 2**63, -1, 0):
        with pytest.raises(MillpondError, match="option 'early': "):
            pond.register(WINDOWS, early=given)
    with pytest.raises(MillpondError, match="option 'revise_for': '-1' is negative"):
        pond.register(WINDOWS, revise_for=-1)


def test_a_wrong_option_stops_nothing(pond: Any, url: str) -> None:
    """An instant as text was recorded as it is, and every epoch failed from then on, after reopening, too."""
    reply = Raw(url)("POST", "/v1/queries", {"query": WINDOWS, "name": "w", "options": {"since": "2024-05-01"}})
    assert reply.status == 201
    assert pond.query("w").info()["options"]["since"] == 1_714_521_600_000_000
    for value in ("soon", True, [1], {"at": 1}):
        reply = Raw(url)("POST", "/v1/queries", {"query": WINDOWS, "options": {"since": value}})
        assert reply.status == 400 and "option 'since'" in reply.json["message"]
    pond.ingest("s", [{"ts": "2024-05-01 00:00:01", "k": "a", "v": 1}, {"ts": "2024-05-01 00:01:00", "k": "a", "v": 1}])
    pond.drain()
    assert len(pond.sql("SELECT * FROM w").rows()) == 1
    pond.query("w").drop()


@pytest.mark.parametrize("name", options_of(Settings))
def test_settings(pond: Any, name: str) -> None:
    setting = options_of(Settings)[name]

    def by_opening(value: Any) -> Any:
        with quick_folder() as path, millpond.open(path / "pond", executor="inline", **{name: value}) as opened:
            return getattr(opened._core.settings, name)

    def by_alter(value: str) -> Any:
        try:
            pond.sql(f"ALTER SYSTEM SET {name} = {value}")
            return getattr(pond._core.settings, name)
        finally:
            pond.sql(f"ALTER SYSTEM SET {name} = DEFAULT")

    for value in [*good(setting.kind), *bad(setting.kind), *STRANGE]:
        wanted = said(setting, value)
        if name == "drivers" and isinstance(value, list):
            continue
        if name == "shards" and isinstance(wanted, int) and wanted > 100:
            continue
        assert tried(lambda value=value: by_opening(value)) == wanted, value
        if isinstance(value, str | int | float):
            [(read, there)] = parse_settings([f"{name}={text_of(value, name)}"]).items()
            assert read == name and said(setting, there) == wanted, value
        if setting.live and (sql := literal(value)) is not None:
            assert tried(lambda sql=sql: by_alter(sql)) == wanted, value


@pytest.mark.parametrize("name", options_of(Limits))
def test_limits_of_servers(name: str) -> None:
    limit = options_of(Limits)[name]
    for value in [*good(limit.kind), *bad(limit.kind)]:
        try:
            found = getattr(Limits.of(parse_pairs([f"{name}={text_of(value, name)}"])), name)
        except OptionFault as fault:
            found = str(fault)
        assert found == said(limit, value)


@pytest.mark.parametrize(
    ("owner", "statement"),
    [
        (StreamTerms, "CREATE STREAM x (ts TIMESTAMP, until TIMESTAMP, k TEXT, a INT, b INT) WITH ({})"),
        (TableTerms, "CREATE TABLE x (ts TIMESTAMP, a INT) WITH ({})"),
        (QueryOptions, f"CREATE QUERY x WITH ({{}}) AS {WINDOWS}"),
        (DerivedTerms, f"CREATE STREAM x WITH ({{}}) AS {WINDOWS}"),
    ],
)
def test_errors_of_statements_are_those_of_the_table(owner: type, statement: str) -> None:
    """What a kind does not take is refused by its words, at its place; names that there are not, too."""
    known = derived_options() if owner is DerivedTerms else options_of(owner)
    for name in known:
        for value in bad(known[name].kind):
            if not isinstance(value, str):
                continue
            text = statement.format(f"{name} = {literal(value)}")
            with pytest.raises(StatementError) as caught:
                parse(text)
            assert refused(caught.value) == said(known[name], value), (name, value)
            assert text[caught.value.start : caught.value.end] in literal(value)
        wrong = name + "x"
        with pytest.raises(StatementError, match=f"there is no option '{wrong}' here") as caught:
            parse(statement.format(f"{wrong} = 1"))
        assert caught.value.nearest == name


@pytest.mark.parametrize("name", [n for n in options_of(StreamTerms) if n not in ("delimiter", "marks", "lateness")])
def test_options_of_streams_as_keywords(name: str) -> None:
    """`Pond.stream_from` makes a stream with options that are keywords: these are what WITH would make of them."""
    frame = StructType().add("ts", TimestampNTZType()).add("k", StringType())
    option = options_of(StreamTerms)[name]
    for value in [*good(option.kind), *bad(option.kind), *STRANGE]:
        try:
            wanted = option.read(value)
        except OptionFault as fault:
            with pytest.raises(SourceError) as caught:
                create_statement("s", frame, {name: value})
            assert str(caught.value) == str(fault)
            continue
        try:
            (statement,) = parse(create_statement("s", frame, {name: value}))
        except StatementError as error:  # it contradicts what stands beside it
            assert error.text[error.start : error.end] and name not in ("retention", "ahead", "seed", "idle")
        else:
            assert getattr(statement.definition.options, name, wanted) in (wanted, None)
    if isinstance(option.kind, Span):
        (statement,) = parse(create_statement("s", frame, {"timer": "1s", name: dt.timedelta(seconds=90)}))
        assert getattr(statement.definition.options, name) == 90_000_000


@pytest.mark.parametrize(
    ("text", "options", "wrong"),
    [
        (TEXTS["materialize"], {"held_rows": 5}, "held_rows"),
        (TEXTS["materialize"], {"memory_rows": 5}, "memory_rows"),
        (TEXTS["materialize"], {"adapt": "off"}, "adapt"),
        (TEXTS["materialize"], {"since": "start"}, "since"),
        (WINDOWS, {"held_rows": 5}, "held_rows"),
        (WINDOWS, {"memory_rows": 5}, "memory_rows"),
        (WINDOWS, {"flush_delay": "2s"}, "flush_delay"),
        (WINDOWS, {"flush_windows": 5}, "flush_windows"),
        (WINDOWS, {"adapt": "off", "adapt_window": 5}, "adapt_window"),
        (WINDOWS, {"every": "1s"}, "every"),
        (WINDOWS, {"materialize": "none"}, "materialize"),
        (TEXTS["every"], {"every": "1s", "empty": "report"}, "empty"),
        (TEXTS["every"], {"every": "1s", "state": "lazy"}, "state"),
        (TEXTS["held_rows"], {"flush": "lazy"}, "flush"),
    ],
)
def test_what_would_change_nothing_is_refused(pond: Any, text: str, options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(MillpondError, match=f"'?{wrong}'?"):
        pond.register(text, **options)
    written = ", ".join(f"{name} = {literal(value)}" for name, value in options.items())
    script = f"CREATE QUERY q WITH ({written}) AS {text}"
    with pytest.raises(StatementError) as caught:
        pond.sql(script)
    assert script[caught.value.start : caught.value.end] == wrong


def test_options_of_queries_apply(pond: Any) -> None:
    """The order of filters is kept as `adapt` says, also where it is a keyword."""
    pond.register(WINDOWS, "kept", adapt="off")
    assert pond._core.catalog.query("kept").definition.options.adapt == "off"
    pond.query("kept").drop()


def test_unknown_names_are_the_same_everywhere(pond: Any, url: str) -> None:
    wanted = "there is no option 'erly' here; expected one of since, empty"
    for way in (
        lambda: pond.register(WINDOWS, erly="1s"),
        lambda: millpond.connect(url).register(WINDOWS, erly="1s"),
        lambda: pond.sql(f"CREATE QUERY x WITH (erly = '1s') AS {WINDOWS}"),
    ):
        found = tried(way)
        assert found.startswith(wanted) and found.endswith("did you mean 'early'?")
    reply = Raw(url)("POST", "/v1/queries", {"query": WINDOWS, "options": {"erly": "1s"}})
    assert reply.status == 400 and reply.json["message"].startswith(wanted)
    for name in ("delay", "pairs", "ordering", "__class__"):
        assert "there is no option" in tried(lambda name=name: pond.register(WINDOWS, **{name: 1}))
    with pytest.raises(MillpondError, match=r"there is no setting 'targt'.*did you mean 'target'"):
        millpond.open("nowhere", executor="inline", targt=1)


def test_reading_a_value_again_changes_nothing() -> None:
    for owner in (QueryOptions, Settings):
        for option in options_of(owner).values():
            for value in good(option.kind):
                read = option.read(value)
                assert option.read(read) == read


def test_defaults_are_values_that_can_be_written() -> None:
    for owner in (QueryOptions, Settings):
        for option in options_of(owner).values():
            assert option.default is None or option.read(option.default) == option.default
    assert from_json(QueryOptions, to_json(QueryOptions())) == QueryOptions()
    assert set(live(Settings)) == set(options_of(Settings)) - {"shards", "settle", "drivers", "remote_files"}
