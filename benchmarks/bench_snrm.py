"""SNRM at several L1 weights on one run: the paper's argument against it (§2) as table and plot.

    python benchmarks/bench_snrm.py --run RUN --preset debian --plot docs/snrm_sweep.svg

Trains each weight as `solar baseline snrm --l1 ... --save_as snrm_l1_...` would;
what is complete already is only collected. Results go to benchmarks/results/snrm.json.
"""

import argparse
from pathlib import Path

from common import machine, write_results

WEIGHTS = "0,1e-6,1e-5,1e-4,3e-4,1e-3,1e-2,1e-1"
COLUMNS = (  # of the table: key, title, digits
    ("l1", "L1 weight", None),
    ("nonzeros", "non-zeros a label", 1),
    ("empty", "empty labels %", 1),
    ("query_nonzeros", "non-zeros a query", 1),
    ("query_empty", "empty queries %", 1),
    ("candidates", "labels scored a query", 0),
    ("imbalance", "longest list / mean", 1),
    ("unused", "unused dimensions %", 1),
    ("P@1", "P@1", 2),
    ("P@5", "P@5", 2),
    ("P@10", "P@10", 2),
    ("R@100", "R@100", 2),
    ("ms_query", "ms a query", 2),
)


def collect(run, weights, settings):
    """One row of figures for each weight, trained where it is missing."""
    from solar_tf.baselines.runner import run_baseline
    from solar_tf.baselines.snrm import SnrmSettings

    rows = []
    for weight in weights:
        result = run_baseline(
            run, "snrm", SnrmSettings(**settings | {"l1": weight}), f"snrm_l1_{weight:g}"
        )
        found = result["rows"][0] | {"l1": weight}
        rows.append({key: found[key] for key, _, _ in COLUMNS})
        rows[-1]["seconds"] = result["training_seconds"]
    return rows, result


def render(rows):
    from solar_tf.runtime.console import table

    def cell(row, key, digits):
        return f"{row[key]:g}" if digits is None else f"{row[key]:,.{digits}f}"

    header = [title for _, title, _ in COLUMNS]
    return table(header, [[cell(row, key, digits) for key, _, digits in COLUMNS] for row in rows])


def plot(rows, path, title):
    """P@1 and Recall@100 above, density and emptiness below, over the L1 weight."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "solar"  # the same figures give the same file
    labels = [f"{row['l1']:g}" for row in rows]
    figure, (above, below) = plt.subplots(2, 1, figsize=(7, 6), sharex=True)
    for key, mark in (("P@1", "o-"), ("P@10", "s-"), ("R@100", "^-")):
        above.plot(labels, [row[key] for row in rows], mark, label=key)
    above.set_ylabel("percent")
    above.set_ylim(bottom=0)
    above.legend()
    above.set_title(title)
    below.plot(labels, [max(row["nonzeros"], 0.1) for row in rows], "o-", label="non-zeros a label")
    below.plot(labels, [row["imbalance"] for row in rows], "s-", label="longest list / mean")
    below.set_yscale("log")
    below.set_xlabel("L1 weight")
    below.legend(loc="center left")
    empty = below.twinx()
    empty.plot(labels, [row["empty"] for row in rows], "k^--", label="empty labels, %")
    empty.plot(labels, [row["query_empty"] for row in rows], "kv:", label="empty queries, %")
    empty.set_ylim(-3, 103)
    empty.legend(loc="center right")
    figure.tight_layout()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", required=True)
    parser.add_argument("--l1", default=WEIGHTS, help="weights, with commas between")
    parser.add_argument("--preset", help="of the other settings; the paper's by default")
    parser.add_argument("--epochs", type=int, help="fewer or more than the preset's")
    parser.add_argument("--plot", type=Path, help="an .svg file")
    arguments = parser.parse_args()

    from solar_tf.baselines.snrm import Snrm

    on = machine()
    settings = Snrm.presets[arguments.preset] if arguments.preset else {}
    if arguments.epochs:
        settings = settings | {"epochs": arguments.epochs}
    weights = [float(weight) for weight in arguments.l1.split(",")]
    rows, result = collect(arguments.run, weights, settings)
    write_results("snrm", rows, on)
    print(render(rows))
    if arguments.plot:
        width, labels = result["settings"]["width"], result["num_labels"]
        title = f"SNRM on {result['dataset']}: {width:,} dimensions, {labels:,} labels"
        plot(rows, arguments.plot, title)


if __name__ == "__main__":
    main()
