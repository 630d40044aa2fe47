"""What fewer bits cost: metrics, size and speed of a run in float16 and int8.

    python benchmarks/bench_precision.py --run RUN --test test.txt --out FOLDER

RUN is a trained run of titles, `--test` the test rows that it was made with; the smaller runs are
made in FOLDER.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from common import machine, write_results

from solar_tf import Solar
from solar_tf.datasets.formats import open_source
from solar_tf.export.quantized import export
from solar_tf.runtime.console import say, size, table

METRICS = ("P@1", "P@3", "P@5", "P@10", "R@100", "PSP@5")
LONE = 200  # queries asked one at a time


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("run", "test", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rows", type=int, default=10**9, help="ask only so many [all]")
    args = parser.parse_args()
    on, rows = machine(), []
    data = open_source(args.test).read()
    count = min(args.rows, len(data))
    texts, splits = data.texts[:count], data.label_splits[: count + 1]
    truth = [data.labels[splits[i] : splits[i + 1]] for i in range(count)]
    for precision in ("float32", "float16", "int8"):
        root = Path(args.run)
        if precision != "float32":
            root = Path(args.out, precision)
            if not root.exists():
                export(args.run, root, precision)
        solar = Solar.load(root)
        solar.search(texts[:8])  # compiles, or loads what was compiled before
        began = time.perf_counter()
        found = {score: solar.evaluate(texts, truth, score=score) for score in ("evidence",)}
        spent = time.perf_counter() - began
        lone = []
        for text in texts[:LONE]:
            began = time.perf_counter()
            solar.search([text])
            lone.append(time.perf_counter() - began)
        stored = sum(path.stat().st_size for path in root.glob("chunks/chunk_*/*.npy"))
        row = {"precision": precision, "bytes": stored}
        row |= {name: round(found["evidence"][name], 2) for name in METRICS}
        row |= {"ms a query, in blocks": 1e3 * spent / count, "alone": 1e3 * np.median(lone)}
        rows.append(row)
        say(str(row))
    write_results("precision", rows, on)
    cells = [[v if isinstance(v, str) else f"{v:.2f}" for v in row.values()] for row in rows]
    for row, cell in zip(rows, cells, strict=True):
        cell[1] = size(row["bytes"])
    say(table(list(rows[0]), cells))


if __name__ == "__main__":
    main()
