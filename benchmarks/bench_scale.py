"""The three stage programs on a large dataset of titles: time, memory, disk, accuracy.

    python benchmarks/bench_scale.py --data FOLDER --preset commits --run RUN --chunks 4

FOLDER holds train.txt.xz, test.txt.xz and labels.txt.xz. The programs run as a user runs
them; memory is the peak of the summed proportional set size of all their processes, sampled
every half second. What the cost model says beforehand is compared with what came. Chunks that
RUN has already are not trained again: their times are those of their training.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from common import cost, figure, machine, print_rows, write_results

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = Path(__file__).parent.parent


def family(pid):
    """A process and all that descend from it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from family(child)


def memory_of(pid):
    """Bytes of a process: its share of what it has in memory, counted once if shared."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def stage(program, *flags):
    """Run a stage program; returns its seconds and its peak memory in GB."""
    command = [sys.executable, ROOT / program / f"{program}.py", *map(str, flags)]
    started, peak = time.perf_counter(), 0
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)})
    while process.poll() is None:
        with contextlib.suppress(OSError, StopIteration):  # one of them may just have ended
            peak = max(peak, sum(map(memory_of, family(process.pid))))
        time.sleep(0.5)
    if process.returncode:
        sys.exit(f"{program}.py ended with code {process.returncode}")
    return time.perf_counter() - started, peak / 1e9


def estimated(files, config):
    from solar_tf.datasets.dataset import open_files
    from solar_tf.operations.estimate import estimate

    return estimate(open_files(*files), config, os.cpu_count())


def against(part, guess, real, unit):
    row = cost(f"estimate of {part}", "the real run", guess, real, unit)
    return row | {"target": "within 25%", "met": 0.75 <= row["ratio"] <= 1.25}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--preset", required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--chunks", type=int, required=True, help="so many are trained")
    parser.add_argument("--full", action="store_true", help="SOLAR-full, too")
    args = parser.parse_args()
    from solar_tf.config import load_preset
    from solar_tf.run.directory import open_run
    from solar_tf.run.files import read_json

    on, config = machine(), load_preset(args.preset)
    files = [args.data / f"{part}.txt.xz" for part in ("train", "test", "labels")]
    names = [f"--{part.name.split('.')[0]}" for part in files]
    flags = [word for pair in zip(names, files, strict=True) for word in pair]
    guess = estimated(files, config)
    spent, peak = stage("preprocess", *flags, "--preset", args.preset, "--run", args.run)
    run = open_run(args.run)
    num_rows = sum(run.summary[split]["rows"] for split in ("train", "test"))
    on_disk = sum(f.stat().st_size for f in args.run.rglob("*") if f.is_file()) / 1e9
    rows = [
        figure("preprocess.py", num_rows / spent, "rows/s"),
        figure("preprocess.py: memory of all processes", peak, "GB"),
        figure("preprocess.py: on disk", on_disk, "GB"),
        against("preprocessing", guess.preprocess_seconds, spent, "s"),
        against("records on disk", guess.records_bytes / 1e9, on_disk, "GB"),
    ]
    peak = stage("train", "--chunks", f"0-{args.chunks - 1}", "--run", args.run)[1]
    chunks = run.trained_chunks()[: args.chunks]
    seconds = statistics.mean(
        read_json(run.paths.chunk(c) / "state.json")["seconds"] for c in chunks
    )
    trained = run.summary["train"]["rows"] * config.epochs
    rows += [
        figure("train.py, one of two trainers", trained / seconds, "rows/s"),
        figure("train.py: memory of all processes", peak, "GB"),
        against("a chunk's training", guess.chunk_seconds, seconds, "s"),
    ]
    flags = "--run", args.run, "--num_chunks", args.chunks, f"--full={args.full}"
    spent, peak = stage("infer", *flags)
    subset = None if args.chunks == config.num_chunks else args.chunks
    metrics = read_json(run.paths.metrics(subset))
    queries = metrics["num_queries"]
    rows += [
        figure("infer.py, all settings", spent / queries * 1e3, "ms a query"),
        figure("infer.py: memory of all processes", peak, "GB"),
    ]
    for row in metrics["rows"]:
        part = f"{row['setting']}, {row['score']}"
        rows += [figure(f"{part}: {name}", row[name], "%") for name in ("P@1", "P@5", "R@100")]
        rows.append(figure(f"{part}: lookup + rank, one core", row["ms_rank"], "ms a query"))
        if (row["setting"], row["score"]) == ("m=100", "evidence"):
            rows.append(
                against("lookup + rank, m=100", guess.ms_rank, row["ms_rank"], "ms a query")
            )
    print_rows(rows)
    write_results(f"scale_{args.preset}", rows, on)


if __name__ == "__main__":
    main()
