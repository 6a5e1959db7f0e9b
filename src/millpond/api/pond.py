"""The handle of a pond: open it, run SQL, ingest, drain, subscribe.

import millpond
with millpond.open("traffic") as pond:
    pond.sql("CREATE STREAM reading (ts TIMESTAMP, sensor TEXT, mph DOUBLE)")
    pond.ingest("reading", [{"ts": "2026-01-01 12:00:00", "sensor": "s7", "mph": 61.5}])
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import duckdb
import pyarrow as pa

from millpond.answers.describe.happening import report, told_nothing
from millpond.answers.describe.pond_status import status
from millpond.answers.row_queries.ready import ready_of
from millpond.answers.row_queries.selection import start_ready
from millpond.answers.stream_operators import operator_answer
from millpond.answers.subscription import subscribe
from millpond.api.feeds import Feeds
from millpond.api.function_methods import Functions
from millpond.api.registrations import Registrations
from millpond.archive.planning.reduction_functions import drop_reduction, register_reduction
from millpond.commands.dry_run import check_script
from millpond.commands.execution.function_keeping import UserFunctions
from millpond.commands.execution.interpreter import Interpreter
from millpond.commands.execution.kind_keeping import WindowKinds
from millpond.commands.execution.performing import CarryOut, execute
from millpond.commands.execution.refitting import finish_columns
from millpond.commands.execution.sight import facts_of
from millpond.commands.setting_commands import begin_statistics
from millpond.engine.control.draining import Drain
from millpond.engine.control.loop import InlineLoop, SparkLoop, step
from millpond.engine.core import Core, open_core
from millpond.engine.jobs.maintenance import maintain
from millpond.engine.jobs.sweeping import sweep_orphans
from millpond.language import Filled, Parameters, with_parameters
from millpond.sources.ingest import to_table, unknown_stream
from millpond.support.errors import PondError, QueryError, SourceError, StatementError
from millpond.support.event_log import event_log
from millpond.synopses import connection
from millpond.synopses.kernel import reset
from millpond.tables.executors import Executor, InlineExecutor
from millpond.types import to_json
from millpond.types.plan_nodes import PlanNode, explain_statement
from millpond.types.results import AnswerBatch, Cursor, DrainReport, StatementResult
from millpond.windows.protocol import WindowKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from millpond.engine.spark.executor import Starting

LOG = event_log(__name__)


class Pond(Functions, Registrations):
    """An open pond. Made by `millpond.open`; safe to use from several threads."""

    def __init__(
        self, core: Core, start: Starting | None, window_kinds: Mapping[str, WindowKind] | None = None
    ) -> None:
        self._core = core
        self._closed = False
        self._start = start
        self._carry_out: CarryOut = partial(execute, core)
        self._kinds = WindowKinds(core.archives, self._carry_out, window_kinds)
        self._functions = UserFunctions(core.archives, self._carry_out)
        self._tell = self.teller()
        self._closed = False
        sweep_orphans(core.storage, core.epochs, [*core.backfills.finished(), *core.mendings.recorded()])
        finish_columns(core.path, core.catalogs)
        if core.settings.statistics:
            self._carry_out(begin_statistics)
        self._loop: InlineLoop | SparkLoop = SparkLoop(core, start) if start is not None else InlineLoop(core)
        self._interpreter = Interpreter(core, self.drain, self._loop.kick)
        self._feeds = Feeds(core.view, core.storage, self.sql, self._loop.kick)
        self._functions.changed = self._interpreter.rows.forget
        if start is not None:
            start_ready(core.view)

    @property
    def path(self) -> str:
        """The pond's folder."""
        return self._core.path

    @property
    def failure(self) -> str | None:
        """Why the engine has stopped, on one line: nothing goes on until the pond is opened again. None: it runs."""
        error = self._core.epochs.failure
        return None if error is None else " ".join(str(error).split()) or type(error).__name__

    def ready(self, timeout: float | None = None) -> bool:
        """Wait until Spark has started, which it does from `open` on in the background, and epochs run.

        What needs no job is answered before: declarations, SHOW, EXPLAIN, small answers. Rows are taken in, too.

        Arguments:
            timeout: seconds; None: as long as it takes.
        Returns: whether it has started.
        Raises: PondError when it cannot.
        """
        started = self._loop.ready(timeout)
        self._check()
        return started

    @property
    def spark(self) -> SparkSession:
        """The Spark session that the pond's jobs run in; waits until it has started.

        Raises: PondError when there is none (executor='inline'), or it did not start.
        """
        self._check()
        if self._start is None:
            raise PondError("a pond with executor='inline' has no Spark session; open it without")
        return self._start.session

    def run(self, script: str, parameters: Parameters | None = None) -> Iterator[StatementResult]:
        """Execute a script of statements, giving the result of each as it is there.

        Arguments:
            parameters: values for `$name` (a mapping), or for `?`, or `$1`, `$2`, … (a sequence).
        Raises: StatementError, at the first wrong statement; those before it have been executed.
        """
        self._check()
        return self._run(with_parameters(script, parameters))

    def run_for_others(self, filled: Filled) -> Iterator[StatementResult]:
        """As `run`, for somebody who reaches no files: whom a server asks for."""
        self._check()
        return self._run(filled, self._core.settings.remote_files)

    def _run(self, filled: Filled, files: bool = True) -> Iterator[StatementResult]:
        try:
            yield from self._interpreter.run(filled.text, files)
        except StatementError as error:
            raise filled.pointing(error) from None

    def check(self, script: str, parameters: Parameters | None = None) -> None:
        """Look a script over without executing anything: syntax, names, types, as far as they can be known before.

        Arguments and errors as of `run`.
        """
        self._check()
        filled = with_parameters(script, parameters)
        try:
            check_script(filled.text, facts_of(self._core))
        except StatementError as error:
            raise filled.pointing(error) from None

    def sql(self, script: str, parameters: Parameters | None = None) -> StatementResult:
        """Execute a script and return the result of its last statement.

        Arguments:
            parameters: values for `$name` (a mapping), or for `?`, or `$1`, `$2`, … (a sequence): numbers, texts,
                times, Decimals, NumPy's and Arrow's values, lists and mappings.

            >>> import tempfile
            >>> with open(tempfile.mkdtemp(), executor="inline") as pond:
            ...     pond.sql("SELECT $who AS who, $n + 1 AS n", {"who": "it's me", "n": 4}).rows()
            [("it's me", 5)]
        """
        results = list(self.run(script, parameters))
        return results[-1] if results else StatementResult("message", "nothing to do")

    def explain(self, query: str, analyze: bool = False) -> PlanNode:
        """How a SELECT, a query or a stream is answered, as a tree. Printed, it is what EXPLAIN says.

        Arguments:
            query: a SELECT, or the name of a query or a stream as SQL has it.
            analyze: also what that took in the last epochs; a SELECT with REDUCE is answered for it.
        Raises: StatementError where the SELECT is wrong; QueryError when there is nothing of that name.

            >>> import tempfile
            >>> with open(tempfile.mkdtemp(), executor="inline") as pond:
            ...     _ = pond.sql("CREATE STREAM s (ts TIMESTAMP, a INTEGER) WITH (event_time = 'ts')")
            ...     pond.explain("SELECT count(*) FROM s [RANGE TUMBLING 1 MINUTE]").value("window")
            'range 1m, slide 1m, origin 1970-01-01 00:00:00'
        """
        plan = self.sql(explain_statement(query, analyze)).plan
        assert plan is not None
        return plan

    def ingest(self, stream: str, data: Any, key: str | None = None, partition: str = "") -> int | None:
        """Take rows into a stream; when this returns they are durable.

        Arguments:
            data: an Arrow table or batch, a list of dicts, a dict of columns, or anything with `__arrow_c_stream__`.
            key: an idempotency key: the same rows with the same key within 24 hours are not taken again.
            partition: the source partition, for streams whose watermark is kept per partition.
        Returns: the batch's number in the stream's intake order; None when it has no rows.
        Raises: SourceError when the data does not fit the stream, the key was used for other rows, or the stream has
            ended.
        """
        self._check()
        definition = self._core.catalog.stream(stream)
        if definition is None:
            taken = self._core.catalog.lookup(stream) or self._core.register.by_name(stream)
            raise unknown_stream(stream, taken is not None)
        if definition.options.source == "system":
            raise SourceError(f"stream '{stream}' is the system's: its rows are what epochs report")
        if definition.derived is not None:
            raise SourceError(f"stream '{stream}' is derived: its rows are answers; ingest into what it reads")
        runtime = self._core.streams[definition.id]
        if runtime.log.ended:
            raise SourceError(f"stream '{stream}' has ended (DRAIN FINAL); recreate it to take rows again")
        try:
            table = to_table(data, definition, connection())
        except duckdb.FatalException as error:
            reset()
            raise SourceError(f"the data does not fit stream '{stream}': {error}") from None
        with self._core.lock:
            arrival = self._core.now()
            runtime.arriving.append(arrival)
        try:
            ordinal = runtime.landing.append(table, partition, key, arrival)
        except PondError:
            if definition.id not in self._core.catalog.streams:
                raise SourceError(f"stream '{stream}' was dropped meanwhile") from None
            raise
        finally:
            with self._core.lock:
                runtime.arriving.remove(arrival)
        self._loop.kick()
        return ordinal

    def stream_from(
        self,
        frame: DataFrame,
        stream: str,
        *,
        name: str = "main",
        partition: str = "",
        trigger: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> StreamingQuery:
        """Feed a stream from a streaming DataFrame of Spark, whatever its source: each row once, over restarts too.

        Arguments:
            frame: `spark.readStream …`, with columns of the stream's names. Values that do not fit become dead letters.
            stream: is made from the DataFrame's columns when there is none; then `options` are those of CREATE STREAM.
            name: of the feed. A feed of the same name goes on where it was when the pond is opened again.
            partition: the source partition, for streams whose watermark is kept per partition.
            trigger: how often, as Spark's `trigger` takes it: {"processingTime": "1 second"}, {"availableNow": True}.
        Returns: Spark's query, to be stopped or waited for; closing the pond stops it. A feed that has failed shows in
            `status()["streams"][stream]["feeds"]`.
        Raises: SourceError when the DataFrame does not fit the stream.

        Rows pass through Spark's JVM. Files that a stream reads itself (`source = 'files'`) cost less.
        """
        self._check()
        return self._feeds.start(frame, stream, name, partition, trigger or {}, options)

    def drain(self, final: bool = False) -> DrainReport:
        """Wait until all that the sources hold now is committed, and say what happened.

        Queries that were resumed have caught up by then.

        Arguments:
            final: then announce the end of every source, which closes all windows; it survives a restart.
        Returns: what was taken in since the last report, dead letters by cause, what windows wait for.
        Raises: PondError, SourceError when that cannot be: a file that was taken is gone, say.

            >>> import tempfile
            >>> with open(tempfile.mkdtemp(), executor="inline") as pond:
            ...     _ = pond.sql("CREATE STREAM s (ts TIMESTAMP, a INTEGER) WITH (event_time = 'ts')")
            ...     _ = pond.ingest("s", [{"ts": "2026-03-01 08:00:00", "a": 1}])
            ...     print(pond.drain())
            drained: 1 row of s
        """
        self._drain(final)
        return self._tell(final)

    def teller(self) -> Callable[[bool], DrainReport]:
        """A function that tells what has happened since it was last called (the first time: since it was made).

        What `drain` tells is measured by one of its own, so that neither takes news from the other. Its argument:
        whether every source has ended, so that no window is open.
        """
        self._check()
        told, telling = told_nothing(self._core.archives), threading.Lock()

        def tell(final: bool) -> DrainReport:
            with telling:
                return report(self._core.archives, self._core.streams, told, final)

        return tell

    def _drain(self, final: bool) -> None:
        self._check()
        core = self._core
        drain = Drain(core.view, core.storage, core.backfills, core.mendings, final)
        self._loop.kick()
        if isinstance(self._loop, InlineLoop):
            idle = 0
            while not drain.done():
                # Another thread may be at work: what it does shows only when it is done.
                idle = 0 if step(self._core, settle=False) else idle + 1
                if idle > 200:
                    raise PondError("the drain cannot go on: no epoch has anything to do")
                if idle:
                    time.sleep(0.01)
            return
        self._core.epochs.wait(drain.done)

    def step(self, force: bool = False) -> bool:
        """Run one epoch over everything taken in so far (ponds with the inline executor only)."""
        self._check()
        if not isinstance(self._loop, InlineLoop):
            raise PondError("epochs run by themselves here; step() is for executor='inline'")
        return step(self._core, force, settle=False)

    def maintain(self) -> None:
        """Run one round of compaction, retention and sweeping now; it also happens by itself."""
        self._check()
        core = self._core
        maintain(core.view, core.storage, core.backfills, core.upkeep)

    def subscribe(
        self,
        query: str,
        since: Cursor | str | None = None,
        timeout: float | None = None,
        *,
        final: bool = False,
        status: str | None = None,
    ) -> Iterator[AnswerBatch]:
        """Iterate over a query's answers as they are published, from `since` (None: the first) on.

        Ends when nothing new came for `timeout` seconds. Each batch has rows and the cursor to go on from.
        `final`, `status`: only some of the answers; see `QueryHandle.subscribe`.
        """
        self._check()
        if self._core.catalog.query(query) is None and self._core.register.id_of(query) is not None:
            return self.query(query).subscribe(since, timeout, final=final, status=status)
        return subscribe(self._core.view, query, since, timeout, final, status)

    def answer(self, stream: str, operator: str) -> pa.Table:
        """What an operator answers now that a stream has asked for by its option `operators`.

        Arguments:
            stream: its name. operator: as the option has it: `last_row(sensor, 2 hours)`.
        Raises: QueryError when there is no such stream or operator, or the operator has failed.
        """
        self._check()
        return operator_answer(self._core.archives, stream, operator)

    def register_reduction(self, name: str, function: Callable[..., float | dt.timedelta]) -> None:
        """Make a function of yours available as `REDUCE name(…)`; it is there again after a restart.

        Only who holds the pond itself can do so: the function is Python that runs in its process.

        Arguments:
            name: letters, digits and _; case does not matter. A second registration takes the place of the first.
            function: called as `function(run, *arguments)` for one run of the archive after another, old ones first,
                with the constants of the call; gives the fraction of the run's rows to drop, 0 <= d < 1, or a
                timedelta: an interval over which sums will do. See `millpond.archive.design.reductions.Run`.
        Raises: QueryError when the name cannot be one, or the function cannot be kept.

            >>> import tempfile
            >>> with open(tempfile.mkdtemp(), executor="inline") as pond:
            ...     pond.register_reduction("steady", lambda run, target: max(0, 1 - target / run.rows))
            ...     pond.reductions()
            ['steady']
        """
        self._check()
        register_reduction(self._core.path, self._core.catalogs, name, function)

    def drop_reduction(self, name: str) -> None:
        """Forget a registered reduction function.

        Raises: QueryError when there is none of that name, or a standing query uses it.
        """
        self._check()
        drop_reduction(self._core.path, self._core.catalogs, name)

    def reductions(self) -> list[str]:
        """The names of registered reduction functions."""
        self._check()
        return sorted(self._core.catalog.reductions)

    def status(self) -> dict[str, Any]:
        """What the pond is doing: streams, queries, epochs. Cheap."""
        self._check()
        found = status(self._core.view, self._core.instruments)
        for stream, feeds in self._feeds.status().items():
            for name in (n for n in found["streams"] if n.lower() == stream):
                found["streams"][name]["feeds"] = feeds
        return found

    def describe(self, name: str) -> dict[str, Any]:
        """The definition of a stream, table or query, JSON-ready."""
        self._check()
        found = self._core.catalog.lookup(name) or self._core.register.by_name(name)
        if found is None:
            raise QueryError(f"there is no '{name}'")
        described: dict[str, Any] = to_json(found)
        return described

    def close(self) -> None:
        """Let the running epoch finish and close the pond; everything is on disk."""
        if self._closed:
            return
        self._closed = True
        self._feeds.stop()
        try:
            self._loop.stop()
        finally:
            with self._core.lock:
                self._core.epochs.closing = True
                self._core.epochs.notify()
            ready_of(self._core.view).stop()
            self._kinds.close()
            self._core.close()
            LOG.info("pond closed", path=self.path, epoch=self._core.epochs.published.epoch)

    def _check(self) -> None:
        if self._closed:
            raise PondError("the pond is closed; open it again with millpond.open")
        if self._core.epochs.failure is not None:
            raise self._core.epochs.failure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            with contextlib.suppress(Exception):
                self.close()


def open(
    path: str | os.PathLike[str],
    executor: str = "spark",
    *,
    master: str | None = None,
    clock: Callable[[], int] | None = None,
    window_kinds: Mapping[str, WindowKind] | None = None,
    storage: Mapping[str, str] | None = None,
    **settings: Any,
) -> Pond:
    """Open the pond in folder `path`, which is made when it does not exist. Spark starts meanwhile (`Pond.ready`).

    Arguments:
        executor: 'spark', or 'inline' for tests: no JVM, epochs run when `step` or `drain` asks for them.
        master: a Spark master URL; None: this machine's cores. On a cluster `path` must be on shared storage.
        clock: a function that gives microseconds since 1970; None: the system clock.
        window_kinds: kinds of windows of your own, by name; see `Pond.register_window_kind`. A pond whose queries use
            one needs it at every opening, since a pond keeps no code.
        storage: options of the object store in which streams with `archive_at` lie, as deltalake has them
            (`{'AWS_ENDPOINT_URL': …}`); kept in the pond's folder, readable by its owner only, until others are given.
            None: those of last time. What is not among them comes from the environment.
        settings: see `millpond.types.options.Settings` (shards, target, share, …).
    Raises: PondError when the folder is not a pond, or another process has it open.

        >>> import tempfile
        >>> with open(tempfile.mkdtemp(), executor="inline") as pond:
        ...     pond.sql("SHOW STREAMS").to_arrow().num_rows
        0
    """
    start: Starting | None = None

    def make(folder: str) -> Executor:
        nonlocal start
        if executor == "inline":
            return InlineExecutor()
        from millpond.engine.spark.executor import SparkExecutor, starting

        start = starting(master)
        return SparkExecutor(start)

    if executor not in ("spark", "inline"):
        raise PondError(f"there is no executor '{executor}'; 'spark' and 'inline' are")
    core = open_core(os.fspath(path), make, clock, settings, storage)
    try:
        pond = Pond(core, start, window_kinds)
    except BaseException:
        core.close()
        raise
    catalog, epochs = core.catalogs.catalog, core.epochs
    LOG.info(
        "pond opened", path=core.path, executor=executor, epoch=epochs.published.epoch, in_flight=epochs.in_flight,
        streams=len(catalog.streams), queries=len(catalog.queries), row_queries=len(core.catalogs.register),
    )  # fmt: skip
    return pond
