"""The text that Prometheus reads."""

import re

from solar_tf.serving.counters import Counter, Counters, Histogram

LINE = re.compile(r'[a-z_]+(\{([a-z]+="[^"\n]*",?)+\})? (-?[0-9.e+-]+|\+Inf)')


def test_a_histogram_counts_up_to_each_bound():
    histogram = Histogram("h", "text", (1, 2))
    for value in (0.5, 1, 1.5, 9):
        histogram.observe(value=value)
    assert list(histogram.lines()) == [
        'h_bucket{le="1"} 2',
        'h_bucket{le="2"} 3',
        'h_bucket{le="+Inf"} 4',
        "h_sum 12",
        "h_count 4",
    ]


def test_labels_are_escaped():
    counter = Counter("c", "text", ("a",))
    counter.add('x"\\\n')
    assert list(counter.lines()) == ['c{a="x\\"\\\\\\n"} 1']


def test_everything_is_in_the_exposition_format():
    counters = Counters()
    counters.requests.add("GET", "/search", 200)
    counters.seconds.observe("/search", value=0.01)
    counters.gauge("labels", "Labels.", lambda: 40)
    lines = counters.render().splitlines()
    assert "solar_labels 40" in lines
    assert 'solar_requests_total{method="GET",route="/search",status="200"} 1' in lines
    names = set()
    for line in lines:
        if line.startswith("# TYPE "):
            names.add(line.split()[2])
            assert line.split()[3] in ("counter", "gauge", "histogram")
        elif not line.startswith("# HELP "):
            assert LINE.fullmatch(line), line
            assert re.sub(r"_(bucket|sum|count)$", "", re.split(r"[ {]", line)[0]) in names
    memory = next(line for line in lines if line.startswith("process_resident_memory_bytes "))
    assert float(memory.split()[1]) > 1e6
