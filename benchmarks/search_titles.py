"""Compare settings of a baseline on training rows of a run that are held out for the purpose.

    python benchmarks/search_titles.py --run RUN --out FILE.jsonl dssm \\
        --settings dim=128,learning_rate=0.01 --settings dim=128,learning_rate=0.003

Each line of settings is fitted on the other training rows and judged by P@k and Recall@100 on
those held out. The test split plays no part, so what it says of the chosen settings stays
honest. Rows are added to the file; settings that it holds already are not tried again.
"""

import argparse
import dataclasses
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from solar_tf.baselines.titles import title_keys

HELD_OUT = 4_000
TOP_LABELS = 100
HOW = ("rows", "no_labels")  # of the rows that were learned from and held out


def hold_out(data, count, seed=0, limit=None, as_labels=True):
    """The same Data with some training rows in the place of its test rows.

    Without `as_labels` those titles are no labels of any row, as test titles of some datasets are
    not: where relations go both ways, a model would learn their answers from the other side.
    """
    order = np.random.default_rng(seed).permutation(len(data.train))
    held, kept = np.sort(order[:count]), np.sort(order[count:][:limit])
    split = type(data.train)

    def rows(chosen):
        return split(data.train.inputs[chosen], data.train.labels[chosen])

    train, test = rows(kept), rows(held)
    if not as_labels:
        unknown = np.isin(title_keys(data.label_inputs), title_keys(test.inputs))
        known = sp.diags_array((~unknown).astype(train.labels.dtype))
        train, test = (
            split(part.inputs, _without_zeros(part.labels @ known)) for part in (train, test)
        )
    return dataclasses.replace(data, train=train, test=test, test_filter=None)


def _without_zeros(matrix):
    matrix = sp.csr_matrix(matrix)
    matrix.eliminate_zeros()
    return matrix


def judge(baseline, data):
    from solar_tf.retrieval.metrics import evaluate

    ids, _ = baseline.predict(data.test.inputs, min(TOP_LABELS, data.num_labels))
    found = evaluate(ids, data.test.labels.indptr, data.test.labels.indices)
    return {name: round(found[name], 2) for name in ("P@1", "P@3", "P@5", "P@10", "R@100")}


def parse_settings(text, kind):
    """`dim=128,loss=softmax` as the changes of a baseline's settings; `preset=NAME` may lead."""
    types = {field.name: type(field.default) for field in dataclasses.fields(kind.Settings)}
    pairs = dict(pair.split("=") for pair in text.split(",") if pair)
    preset = kind.presets[pairs.pop("preset")] if "preset" in pairs else {}
    return preset | {name: types[name](value) for name, value in pairs.items()}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="of the baseline")
    parser.add_argument("--run", required=True)
    parser.add_argument("--out", type=Path, required=True, help="a file of JSON lines")
    parser.add_argument("--settings", action="append", default=[], help="name=value,name=value")
    parser.add_argument("--held_out", type=int, default=HELD_OUT, help="training rows")
    parser.add_argument(
        "--no_labels", action="store_true", help="titles held out are labels of no row"
    )
    parser.add_argument("--rows", type=int, help="of the others to learn from; all by default")
    arguments = parser.parse_args()

    from solar_tf.baselines import baseline_class
    from solar_tf.baselines.inputs import load_data

    kind = baseline_class(arguments.name)
    tried = []
    if arguments.out.exists():
        tried = [json.loads(line) for line in arguments.out.read_text().splitlines()]
    tried = [
        (row["baseline"], row["settings"], {name: row.get(name, False) for name in HOW})
        for row in tried
    ]
    for text in arguments.settings or [""]:
        given = parse_settings(text, kind)
        baseline = kind(kind.Settings(**given))
        data = load_data(arguments.run, baseline.settings.weighting, baseline.settings.idf_power)
        data = hold_out(data, arguments.held_out, 0, arguments.rows, not arguments.no_labels)
        how = dict(zip(HOW, (len(data.train), arguments.no_labels), strict=True))
        if (arguments.name, given, how) in tried:
            continue
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            baseline.fit(data, Path(folder))
            spent = time.perf_counter() - began
        found = {name: float(f"{value:.4g}") for name, value in baseline.facts(data).items()}
        row = {"baseline": arguments.name, "settings": given} | how
        row |= judge(baseline, data) | found | {"seconds": round(spent, 1)}
        print(json.dumps(row), flush=True)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        with open(arguments.out, "a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
