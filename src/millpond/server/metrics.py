"""Prometheus metrics: requests as they pass, streams and queries when somebody looks."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from millpond.api.pond import Pond
from millpond.server.access.limits import Load

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
#: Streams beyond these have no series of their own.
_MOST_STREAMS = 200
#: What a stream's status has that only grows, and what goes up and down.
_COUNTED = (
    ("rows", "Rows admitted."),
    ("late", "Late rows."),
    ("dead", "Dead letters."),
    ("bytes_in", "Bytes of the files and batches taken in."),
)
_MEASURED = (
    ("pending_items", "Items taken in, not processed."),
    ("bytes", "Bytes of the archive, as they lie on disk."),
)


class Metrics:
    """The metrics of one server."""

    def __init__(self, pond: Pond, load: Load) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "millpond_http_requests", "Requests answered.", ["operation", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "millpond_http_request_seconds",
            "Time from a request's first byte to its answer's last.",
            ["operation"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.taken = Counter("millpond_ingested_rows", "Rows taken in over HTTP.", registry=self.registry)
        self.given = Counter("millpond_answered_rows", "Rows of answers given over HTTP.", registry=self.registry)
        running = Gauge("millpond_http_requests_in_flight", "Requests in flight.", registry=self.registry)
        running.set_function(lambda: load.requests)
        open_now = Gauge("millpond_subscriptions", "Open subscriptions.", registry=self.registry)
        open_now.set_function(lambda: load.subscriptions)
        ProcessCollector(registry=self.registry)
        self.registry.register(_PondCollector(pond))

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(operation, str(status)).inc()
        self.seconds.labels(operation).observe(seconds)

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)


class _PondCollector(Collector):
    def __init__(self, pond: Pond) -> None:
        self._pond = pond

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        now = self._pond.status()
        yield CounterMetricFamily("millpond_epochs", "Epochs published.", value=now["epochs"])
        yield GaugeMetricFamily("millpond_streams", "Streams.", value=len(now["streams"]))
        yield GaugeMetricFamily("millpond_queries", "Standing queries.", value=_count(now))
        streams = dict(list(now["streams"].items())[:_MOST_STREAMS])
        for field, help_text in _COUNTED:
            counter = CounterMetricFamily(f"millpond_stream_{field}", help_text, labels=["stream"])
            for name, stream in streams.items():
                counter.add_metric([name], stream[field])
            yield counter
        for field, help_text in _MEASURED:
            gauge = GaugeMetricFamily(f"millpond_stream_{field}", help_text, labels=["stream"])
            for name, stream in streams.items():
                gauge.add_metric([name], stream[field])
            yield gauge


def _count(status: dict[str, object]) -> int:
    rows, windows = status.get("row_queries"), status.get("queries")
    of_rows = rows["live"] + rows["paused"] if isinstance(rows, dict) else 0
    return of_rows + (len(windows) if isinstance(windows, dict) else 0)
