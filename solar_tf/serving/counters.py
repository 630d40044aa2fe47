"""What the server counts, for Prometheus to read at /metrics."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TIMES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # seconds
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)

disable_created_metrics()  # a second series for each counter, which nobody asks for


class Counters:
    """All counters of one server."""

    def __init__(self):
        self.registry = CollectorRegistry()  # a process may have several servers
        ProcessCollector(registry=self.registry)

        def counter(name, text, labels=()):
            return Counter(f"solar_{name}", text, labels, registry=self.registry)

        def histogram(name, text, buckets, labels=()):
            return Histogram(f"solar_{name}", text, labels, registry=self.registry, buckets=buckets)

        requests = "method", "route", "status"
        self.requests = counter("requests_total", "Requests by route and status.", requests)
        self.seconds = histogram("request_seconds", "Time to answer a request.", TIMES, ["route"])
        self.queries = counter("queries_total", "Queries searched for.")
        waited = "Time a query waited for its batch to start."
        self.waited = histogram("query_wait_seconds", waited, TIMES)
        self.batch_sizes = histogram("batch_queries", "Queries answered together.", SIZES)
        self.batch_seconds = histogram("batch_seconds", "Time to answer a batch.", TIMES)
        self.reloads = counter("reloads_total", "Reloads of the run by outcome.", ["outcome"])

    def gauge(self, name, text, read):
        """A number that `read` returns whenever Prometheus asks."""
        Gauge(f"solar_{name}", text, registry=self.registry).set_function(read)

    def render(self):
        """Everything in the text format, version 0.0.4."""
        return generate_latest(self.registry)
