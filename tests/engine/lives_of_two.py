"""Two queries over one stream: what the one's part of the work raises must not be met by the other.

`Life` leads a pond through what an engine does for a query: rows, late rows, ticks, compaction, a pause, a back-fill,
a restart, questions. `entries` finds out which functions the engine calls about a query meanwhile, and `planted` makes
one of them raise whenever it is about that query.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import millpond
from millpond.operators.contract import Mapper, Operator
from millpond.support.errors import MillpondError
from millpond.testing import VirtualClock

#: What marks the query that fails, in its conditions and in its options.
MARK, SPARE = "-12345", 86_399_000_000

PLANTED = "planted"

#: Windows that two streams are joined in, and what joins them.
JOINED = "FROM s [RANGE 20 SECONDS] a JOIN s [RANGE 20 SECONDS] b ON a.k = b.k WHERE a.v > -12345"

#: What follows a window over one stream.
OF_K = "WHERE v > -12345 GROUP BY k"

#: SELECTs of every kind, and further options.
KINDS = {
    "panes": (f"SELECT k, sum(v) AS x FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS] {OF_K}", ""),
    "tuples": (f"SELECT k, max(v) AS x FROM s [RANGE TUMBLING 10 SECONDS] {OF_K}", "state='lazy'"),
    "either": (f"SELECT k, max(v) AS x FROM s [RANGE TUMBLING 10 SECONDS] {OF_K}", "state='adaptive'"),
    "landmark": ("SELECT sum(v) AS x FROM s [RANGE ALL SLIDE 10 SECONDS] WHERE v > -12345", ""),
    "early": ("SELECT sum(v) AS x FROM s [RANGE TUMBLING 10 SECONDS] WHERE v > -12345", "early='1 second'"),
    "flushed": (f"SELECT k, sum(v) AS x FROM s [RANGE TUMBLING 10 SECONDS] {OF_K}", "flush='slow'"),
    "row window": ("SELECT sum(v) AS x FROM s [ROWS 3 SLIDE 1] WHERE v > -12345", ""),
    "elements": ("SELECT ISTREAM(v) FROM s [NOW] WHERE v > -12345", ""),
    "relation": (f"SELECT k, sum(v) AS x FROM s [RANGE 20 SECONDS] {OF_K}", ""),
    "early relation": (f"SELECT ISTREAM(k, sum(v) AS x) FROM s [RANGE 20 SECONDS] {OF_K}", "early='1 second'"),
    "join": (f"SELECT ISTREAM(a.v, b.v AS w) {JOINED}", ""),
    "grouped join": (f"SELECT a.k, sum(b.v) AS x {JOINED} GROUP BY a.k", ""),
    "probed": (
        "SELECT ISTREAM(a.v, b.v AS w) FROM s [NOW] a JOIN s [RANGE 8 DAYS] b ON a.k = b.k WHERE b.v > -12345", ""
    ),
    "pairs": (f"SELECT PAIRS(a.v, b.v AS w) {JOINED}", ""),
}  # fmt: skip


def at(seconds: float) -> dt.datetime:
    """An instant of the streams."""
    return dt.datetime(2026, 1, 1) + dt.timedelta(seconds=seconds)


@dataclass
class Life:
    """The life of a pond with the queries `good` and `bad`.

    kind: of `bad`. past: it is registered after most of the rows. asked: whether a statement runs, and not the engine.
    """

    folder: str
    kind: str
    past: bool
    asked: bool = False
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(1_767_225_600_000_000))
    pond: Any = None

    def __post_init__(self) -> None:
        self.pond = self.opened()

    def opened(self) -> Any:
        """The pond, made or opened again."""
        return millpond.open(self.folder, executor="inline", clock=self.clock, compact_files=2, shards=2)

    def ask(self, text: str) -> Any:
        """The rows of a statement about `bad`, which may fail for whoever asked."""
        self.asked = True
        try:
            return self.pond.sql(text).rows()
        except (MillpondError, RuntimeError) as error:
            assert not isinstance(error, RuntimeError) or PLANTED in str(error)
            return None
        finally:
            self.asked = False

    def feed(self, *seconds: float) -> None:
        """Rows with these event times, some time after those before, and one epoch."""
        self.clock.advance(2_000_000)
        self.pond.ingest("s", [{"ts": at(t), "k": "ab"[int(t) % 2], "v": int(t)} for t in seconds])
        self.pond.drain()

    def lead(self) -> None:
        """All of it."""
        pond = self.pond
        pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v INTEGER) WITH (event_time='ts', idle='1 minute')")
        pond.sql("CREATE QUERY good AS SELECT count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS]")
        if self.past:
            self.feed(1, 3, 12)
            self.feed(14, 15, 25)
        self.register()
        for start in (45, 60, 75):
            self.feed(start, start + 1, start + 13, start - 9)
        self.clock.advance(8_000_000)
        pond.drain()
        self.ask("ALTER QUERY bad PAUSE")
        self.feed(90, 91, 80)
        self.ask("ALTER QUERY bad RESUME")
        self.feed(105, 106, 95)
        for text in ("INVOKE bad", "EXPLAIN bad", "EXPLAIN ANALYZE bad", "SELECT * FROM bad"):
            self.ask(text)
        for text in ("SHOW QUERIES", "SHOW SYNOPSES", "SHOW WATERMARKS", "SHOW STREAMS"):
            pond.sql(text)
        pond.status()
        pond.maintain()
        self.reopen()

    def register(self) -> None:
        """Register `bad`."""
        select, more = KINDS[self.kind]
        options = ", ".join(["since='start'", "revise_for='86399 seconds'", *([more] if more else [])])
        self.ask(f"CREATE QUERY bad WITH ({options}) AS {select}")
        self.pond.drain()

    def reopen(self) -> None:
        """Close the pond, open it, and go on."""
        self.pond.close()
        self.pond = self.opened()
        self.feed(120, 121, 110)

    def status(self) -> tuple[str, str] | None:
        """Status of `bad`, and the reason."""
        found = {row["query"]: row for row in self.pond.sql("SHOW QUERIES").table.to_pylist()}
        return (found["bad"]["status"], found["bad"]["reason"]) if "bad" in found else None

    def end(self) -> list[tuple[Any, ...]]:
        """`bad` is dropped, and no rows come any more: what `good` has answered."""
        if self.status() is not None:
            self.pond.sql("DROP QUERY bad")
        self.feed(130)
        self.pond.drain(final=True)
        return sorted(self.pond.sql("SELECT window_end, n FROM good").rows())


#: Classes whose values are about one query or what serves it.
ABOUT = {
    *("Standing", "QueryDefinition", "BoundQuery", "QueryOptions", "PanesSpec", "Rows", "Synopsis", "Store", "Wanted"),
    *("Relational", "RelationInput"),
}


def is_about(value: Any) -> bool:
    """Whether a value is about the query that is to fail: by its definition, its options, its state, its operator."""
    kind = type(value)
    if not kind.__module__.startswith("millpond."):
        return False
    if kind.__name__ in ABOUT:
        text = repr(value)
        return MARK in text or str(SPARE) in text
    if isinstance(value, (Operator, Mapper)):
        return any(is_about(v) for v in vars(value).values())
    return False


def called(frame: Any) -> list[Any]:
    """The arguments of a call that begins."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    return [frame.f_locals[n] for n in code.co_varnames[:count] if n in frame.f_locals]


def entries(life: Callable[[], None], callers: str) -> list[tuple[str, str]]:
    """The functions of the engine that modules under `callers` call about `bad` in a life: (module, qualified name)."""
    found: dict[tuple[str, str], None] = {}

    def look(frame: Any, event: str, _arg: Any) -> None:
        if event != "call" or frame.f_back is None:
            return
        module = frame.f_globals.get("__name__", "")
        name = frame.f_code.co_qualname if hasattr(frame.f_code, "co_qualname") else frame.f_code.co_name
        key = (module, name)
        if key in found or not module.startswith("millpond.") or "<" in name:
            return
        caller = frame.f_back
        while caller is not None and not caller.f_globals.get("__name__", "").startswith("millpond."):
            caller = caller.f_back  # functools, executors
        if caller is None or not caller.f_globals["__name__"].startswith(callers):
            return
        if any(is_about(a) for a in called(frame)):
            found[key] = None

    sys.setprofile(look)
    try:
        life()
    finally:
        sys.setprofile(None)
    return list(found)


@contextlib.contextmanager
def planted(module: str, name: str, tell: Callable[[], None]) -> Iterator[None]:
    """While it is open, a function raises when it is about `bad`, wherever it was imported to."""
    home = sys.modules[module]
    holders: list[tuple[Any, str, Any]] = []
    *outer, name = name.split(".")
    for owner in [vars(home)[outer[0]]] if outer else [home]:
        real = vars(owner).get(name)
        if real is None:
            continue
        plain = real.__func__ if isinstance(real, (staticmethod, classmethod)) else real
        plain = plain.fget if isinstance(plain, property) else plain
        if not inspect.isfunction(plain):
            continue

        def fake(*args: Any, _plain: Any = plain, **kwargs: Any) -> Any:
            if any(is_about(a) for a in (*args, *kwargs.values())):
                tell()
                raise RuntimeError(PLANTED)
            return _plain(*args, **kwargs)

        made: Any = fake
        for wrap in (staticmethod, classmethod, property):
            if isinstance(real, wrap):
                made = wrap(fake)
        places = (
            [owner] if inspect.isclass(owner) else [m for n, m in list(sys.modules.items()) if n.startswith("millpond")]
        )
        for place in places:
            for key, value in list(vars(place).items()):
                if value is real:
                    holders.append((place, key, value))
                    setattr(place, key, made)
    try:
        yield
    finally:
        for place, key, value in holders:
            setattr(place, key, value)
