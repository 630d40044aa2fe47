"""What all benchmarks share: the machine they ran on, timing, results as JSON."""

import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("numpy", "numba", "scipy", "scikit-learn", "tensorflow")


def machine():
    """Processor, memory, versions and commit: what a measured time depends on."""
    cpuinfo = Path("/proc/cpuinfo")
    models = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=RESULTS.parent,
        capture_output=True,
        text=True,
    )
    return {
        "cpu": models[0].split(": ")[1] if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "load": round(os.getloadavg()[0], 1),  # of other work, when asked before the benchmark
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "commit": commit.stdout.strip() or None,
        "date": datetime.date.today().isoformat(),
    }


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


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
    RESULTS.mkdir(exist_ok=True)
    content = {"machine": on or machine(), "rows": rows}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")


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
    from solar_tf.console import table

    words = {None: "-", True: "yes", False: "no"}

    def cell(value):
        if value is None or isinstance(value, bool):
            return words[value]
        return f"{value:,.10g}" if isinstance(value, float) else value

    names = list(rows[0])
    print(table(names, [[cell(row[name]) for name in names] for row in rows]))
