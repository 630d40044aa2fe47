"""DSSM's exact search beside indexes of its label vectors: what they find, and how fast.

    python benchmarks/bench_dense_search.py --run RUN [--model dssm]

Reads the model that `solar baseline dssm --run RUN` has saved. For each way of
searching: P@1, Recall@100, the share of the exact top 100 that it finds, milliseconds of a query
in blocks and alone on all cores, and the seconds that building the index took.
"""

import argparse
import dataclasses
import statistics
import time

from common import machine, write_results

QUERIES, ALONE = 2_000, 100
METHODS = ("exact", "hnsw", "clusters")


def measure(baseline, data, method):
    """One row of figures, and the labels found [QUERIES, 100]."""
    from solar_tf.baselines.dense_search import make_index
    from solar_tf.retrieval.metrics import evaluate

    own = type(baseline)(dataclasses.replace(baseline.settings, search=method))
    own.arrays, building = dict(baseline.arrays), 0.0
    if method != "exact":
        began = time.perf_counter()
        own.arrays |= make_index(own.arrays["labels"], method, 0)
        building = time.perf_counter() - began
    inputs, labels = data.test.inputs[:QUERIES], data.test.labels[:QUERIES]
    own.predict(inputs[:2], 100)
    began = time.perf_counter()
    ids, _ = own.predict(inputs, 100)
    block = 1e3 * (time.perf_counter() - began) / len(ids)
    alone = []
    for row in range(min(ALONE, len(ids))):
        began = time.perf_counter()
        own.predict(inputs[row : row + 1], 100)
        alone.append(1e3 * (time.perf_counter() - began))
    found = evaluate(ids, labels.indptr, labels.indices)
    return {
        "search": method,
        "P@1": round(found["P@1"], 2),
        "R@100": round(found["R@100"], 2),
        "ms_query": round(block, 3),
        "ms_single": round(statistics.median(alone), 3),
        "building_seconds": round(building, 1),
    }, ids


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", required=True)
    parser.add_argument("--model", default="dssm", help="its name below RUN/baselines")
    arguments = parser.parse_args()

    from solar_tf.baselines.dssm import Dssm
    from solar_tf.baselines.inputs import load_data
    from solar_tf.run.directory import open_run
    from solar_tf.runtime.console import table

    on, run = machine(), open_run(arguments.run)
    baseline = Dssm.load(run.paths.baseline(arguments.model) / "model")
    data = load_data(arguments.run, baseline.settings.weighting, baseline.settings.idf_power)
    rows, exact = [], None
    for method in METHODS:
        row, ids = measure(baseline, data, method)
        exact = ids if exact is None else exact
        lists = zip(exact.tolist(), ids.tolist(), strict=True)
        shared = [len({*a} & {*b} - {-1}) for a, b in lists]
        row["found_of_exact"] = round(statistics.mean(shared), 2)  # of 100: percent
        rows.append(row)
    write_results("dense_search", rows, on)
    print(table(list(rows[0]), [list(row.values()) for row in rows]))


if __name__ == "__main__":
    main()
