"""What all benchmarks share: the machine they ran on, timing, results as JSON."""

import json
import statistics
import time
from pathlib import Path

from solar_tf.runtime.provenance import machine

RESULTS = Path(__file__).parent / "results"


def median_time(fn, repeats=5):
    """Median seconds of `repeats` calls, after one that warms up."""
    fn()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        fn()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def write_results(name, rows, on=None):
    """Write benchmarks/results/NAME.json: the machine, and one dict for each row."""
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": on or machine(), "rows": rows}
    path.write_text(json.dumps(content, indent=2) + "\n")


def faster(part, against, ours, theirs, unit, least=None):
    """A row that says how many times faster `part` is; `unit` is a time, or a rate "rows/s"."""
    ratio = ours / theirs if unit.endswith("/s") else theirs / ours
    target = least and f"at least {least}x"
    return _row(part, against, ours, theirs, unit, ratio, target, least and ratio >= least)


def cost(part, against, ours, theirs, unit, most=None):
    """A row that says how many times the time of something smaller `part` takes."""
    target = most and f"at most {most}x"
    return _row(
        part, against, ours, theirs, unit, ours / theirs, target, most and ours / theirs <= most
    )


def figure(part, ours, unit, target=None, met=None):
    """A row with nothing to compare with."""
    return _row(part, None, ours, None, unit, None, target, met)


def _row(part, against, ours, theirs, unit, ratio, target, met):
    ours, theirs, ratio = (x if x is None else float(f"{x:.4g}") for x in (ours, theirs, ratio))
    met = met if met is None else bool(met)
    return {
        "part": part, "against": against, "ours": ours, "theirs": theirs,
        "unit": unit, "ratio": ratio, "target": target, "met": met,
    }  # fmt: skip


def print_rows(rows):
    """Print rows of results as a Markdown table."""
    from solar_tf.runtime.console import table

    words = {None: "-", True: "yes", False: "no"}

    def cell(value):
        if value is None or isinstance(value, bool):
            return words[value]
        return f"{value:,.10g}" if isinstance(value, float) else value

    names = list(rows[0])
    print(table(names, [[cell(row[name]) for name in names] for row in rows]))
