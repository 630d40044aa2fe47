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


def print_rows(rows):
    """Print rows of results as a table, whatever their keys."""
    from solar_tf.console import table

    names = list(dict.fromkeys(name for row in rows for name in row))
    print(table(names, [[_cell(row.get(name)) for name in names] for row in rows]))


def _cell(value):
    words = {None: "-", True: "yes", False: "no"}
    return words[value] if value is None or isinstance(value, bool) else value
