"""The text that Prometheus reads."""

import math

from prometheus_client.parser import text_string_to_metric_families

from solar_tf.serving.counters import Counters

TIMES = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, math.inf]
SIZES = [1, 2, 4, 8, 16, 32, 64, 128, math.inf]


def read(counters):
    """The labels and values of every series, by its name."""
    found = {}
    for family in text_string_to_metric_families(counters.render().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_names_labels_and_buckets_are_those_that_dashboards_know():
    counters, other = Counters(), Counters()  # two servers in one process
    counters.requests.labels("GET", '/"\\\n', 200).inc()
    counters.reloads.labels("run").inc()
    for seconds in (0.0005, 0.001, 0.02, 9):
        counters.seconds.labels("/search").observe(seconds)
    counters.gauge("labels", "Labels.", lambda: 40)
    series = read(counters)
    labels = {"method": "GET", "route": '/"\\\n', "status": "200"}
    assert series["solar_requests_total"] == [(labels, 1)]
    assert series["solar_reloads_total"] == [({"outcome": "run"}, 1)]
    assert series["solar_queries_total"] == [({}, 0)]
    assert series["solar_labels"] == [({}, 40)]
    assert series["process_resident_memory_bytes"][0][1] > 1e6
    assert {"process_start_time_seconds", "process_cpu_seconds_total"} < {*series}
    for name, bounds in (
        ("request_seconds", TIMES),
        ("query_wait_seconds", TIMES),
        ("batch_seconds", TIMES),
        ("batch_queries", SIZES),
    ):
        buckets = series[f"solar_{name}_bucket"]
        assert [float(labels["le"]) for labels, _ in buckets] == bounds
    counts = [value for _, value in series["solar_request_seconds_bucket"]]
    assert counts == [2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 4]
    assert not [name for name in series if name.endswith("_created")]
    assert "solar_requests_total" not in read(other)
