"""What the server counts, in the text format that Prometheus reads.

Everything is counted from the event loop's thread, so that no lock is needed.
"""

import bisect
import resource
import sys
import time

TIMES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # seconds
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Counter:
    """A number that only rises, one for each combination of its labels' values."""

    kind = "counter"

    def __init__(self, name, text, labels=()):
        self.name, self.text, self.labels, self.values = name, text, labels, {}

    def add(self, *labels, value=1):
        self.values[labels] = self.values.get(labels, 0) + value

    def lines(self):
        for values, number in sorted(self.values.items()):
            yield f"{self.name}{_braces(self.labels, values)} {_number(number)}"


class Gauge:
    """A number that is asked for when it is read; `read` returns a dict where there are labels."""

    kind = "gauge"

    def __init__(self, name, text, read, labels=(), kind="gauge"):
        self.name, self.text, self.read, self.labels, self.kind = name, text, read, labels, kind

    def lines(self):
        numbers = self.read()
        for values, number in (numbers if self.labels else {(): numbers}).items():
            yield f"{self.name}{_braces(self.labels, values)} {_number(number)}"


class Histogram:
    """How many observations were at or under each bound."""

    kind = "histogram"

    def __init__(self, name, text, bounds, labels=()):
        self.name, self.text, self.bounds, self.labels = name, text, bounds, labels
        self.counts, self.sums = {}, {}

    def observe(self, *labels, value):
        counts = self.counts.setdefault(labels, [0] * (len(self.bounds) + 1))
        counts[bisect.bisect_left(self.bounds, value)] += 1
        self.sums[labels] = self.sums.get(labels, 0.0) + value

    def lines(self):
        names = (*self.labels, "le")
        for values, counts in sorted(self.counts.items()):
            total = 0
            for bound, count in zip((*self.bounds, float("inf")), counts, strict=True):
                total += count
                yield f"{self.name}_bucket{_braces(names, (*values, _number(bound)))} {total}"
            yield f"{self.name}_sum{_braces(self.labels, values)} {_number(self.sums[values])}"
            yield f"{self.name}_count{_braces(self.labels, values)} {total}"


class Counters:
    """All counters of a server."""

    def __init__(self):
        self.started = time.time()
        self.requests = Counter(
            "solar_requests_total", "Requests by route and status.", ("method", "route", "status")
        )
        self.seconds = Histogram(
            "solar_request_seconds", "Time to answer a request.", TIMES, ("route",)
        )
        self.queries = Counter("solar_queries_total", "Queries searched for.")
        self.waited = Histogram(
            "solar_query_wait_seconds", "Time a query waited for its batch to start.", TIMES
        )
        self.batch_sizes = Histogram(
            "solar_batch_queries", "Queries that were answered together.", SIZES
        )
        self.batch_seconds = Histogram(
            "solar_batch_seconds", "Time to answer a batch of queries.", TIMES
        )
        self.reloads = Counter(
            "solar_reloads_total", "Reloads of the run by outcome.", ("outcome",)
        )
        self.gauges = [
            Gauge(
                "process_start_time_seconds",
                "Start time of the process since the epoch.",
                lambda: self.started,
            ),
            Gauge(
                "process_cpu_seconds_total",
                "User and system time of the process.",
                time.process_time,
                kind="counter",
            ),
            Gauge("process_resident_memory_bytes", "Memory in use.", _resident_bytes),
        ]

    def gauge(self, name, text, read, labels=()):
        self.gauges.append(Gauge(f"solar_{name}", text, read, labels))

    def render(self):
        """The exposition format, version 0.0.4."""
        lines = []
        for metric in [value for value in vars(self).values() if hasattr(value, "lines")] + (
            self.gauges
        ):
            lines += [f"# HELP {metric.name} {metric.text}", f"# TYPE {metric.name} {metric.kind}"]
            lines += metric.lines()
        return "\n".join(lines) + "\n"


def _resident_bytes():
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:  # no Linux: the most it ever had
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _braces(names, values):
    if not names:
        return ""
    pairs = (f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{','.join(pairs)}}}"


def _escape(value):
    return str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value):
    return "+Inf" if value == float("inf") else f"{value:.10g}"
