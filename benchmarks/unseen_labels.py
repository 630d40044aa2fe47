"""New labels without training: the study of unseen products that the paper promises (§1).

    python benchmarks/unseen_labels.py --out FOLDER
    python benchmarks/unseen_labels.py --out FOLDER --train T --test T --labels T --num_chunks 4
    python benchmarks/unseen_labels.py --out FOLDER --predictions dssm=predictions.npz

Holds out a share of the labels entirely: they are taken out of the training rows, and rows
that are left without labels go. A run is trained on the rest, the held-out labels are added by
their titles, and the test queries are asked: those whose answer includes a held-out label, and
the others, which must not suffer. Where a label has the query's own title, which is never the
answer in data of packages or books, it is dropped from the ranking in the rows marked so.

The last rows are tuned: they go on training with the rows that name the new labels.

A baseline that embeds any title can be trained on FOLDER/train.txt with the titles of all labels,
FOLDER/all.txt, and asked FOLDER/test.txt; its predictions.npz is judged in the same way.
"""

import argparse
import os
import shutil
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from common import machine, write_results
from search_settings import parse_settings

from solar_tf.config import load_preset
from solar_tf.datasets.dataset import open_files, open_named
from solar_tf.preprocessing.stage import make_run
from solar_tf.retrieval import metrics
from solar_tf.run.files import read_arrays, write_json
from solar_tf.runtime.console import say, table
from solar_tf.runtime.devices import load_tensorflow
from solar_tf.runtime.ragged import row_splits

REPLAY = 1.0  # rows of the old training data for each row that names a new label
RANKED = 110  # labels of a query, of which a few may go
METRICS = ("P@1", "P@3", "P@5", "R@100")
PLACEMENTS = [  # how, choices, within, lift, share
    ("hash", 1, 0.0, 0.0, 0.0),
    ("content", 10, 0.5, 0.0, 1.0),
    ("content", 10, 0.5, 0.5, 1.0),
    ("content", 1, 1.0, 1.0, 1.0),
    ("content", 10, 0.5, 1.0, 1.0),
    ("content", 10, 0.5, 1.0, 0.67),
    ("content", 10, 0.5, 1.0, 0.5),
    ("content", 10, 0.5, 1.0, 0.34),
]


def split_data(dataset, share, out, seed=0):
    """Write the rows in a numbering where the held-out labels come last.

    The files are train.txt (without them), test.txt (with them), kept.txt, new.txt and all.txt,
    the titles. Returns the titles kept and new, and the training rows that name new labels.
    """
    titles = np.array(dataset.label_titles, object)
    held_out = np.zeros(len(titles), bool)
    chosen = np.random.default_rng(seed).choice(
        len(titles), round(share * len(titles)), replace=False
    )
    held_out[chosen] = True
    numbers = np.empty(len(titles), np.int64)
    numbers[~held_out] = np.arange(np.count_nonzero(~held_out))
    numbers[held_out] = np.arange(np.count_nonzero(~held_out), len(titles))
    out.mkdir(parents=True, exist_ok=True)
    train, test = dataset.train.read(), dataset.test.read()
    for name, rows, dropped in (("train", train, True), ("test", test, False)):
        with open(out / f"{name}.txt", "w", encoding="utf-8") as file:
            for row, text in enumerate(rows.texts):
                labels = rows.labels[rows.label_splits[row] : rows.label_splits[row + 1]]
                if dropped:
                    labels = labels[~held_out[labels]]
                if len(labels):
                    file.write(f"{','.join(map(str, np.sort(numbers[labels])))}\t{text}\n")
    kept, new = titles[~held_out], titles[held_out]
    for name, some in (("kept", kept), ("new", new), ("all", [*kept, *new])):
        (out / f"{name}.txt").write_text("".join(f"{title}\n" for title in some), "utf-8")
    of_row = np.repeat(np.arange(len(train)), np.diff(train.label_splits))
    named = np.flatnonzero(np.bincount(of_row, held_out[train.labels], len(train)))
    splits = train.label_splits
    examples = (
        [train.texts[row] for row in named],
        [numbers[train.labels[splits[row] : splits[row + 1]]] for row in named],
    )
    return list(kept), list(new), examples


class Truth:
    """The test queries, and which of them ask for a held-out label."""

    def __init__(self, path, titles, num_kept):
        self.titles = {}  # the labels of a title
        for label, title in enumerate(titles):
            self.titles.setdefault(title, []).append(label)
        rows = open_files(path).train.read()
        self.texts, self.splits, self.labels = rows.texts, rows.label_splits, rows.labels
        self.new = self.labels >= num_kept
        of_row = np.repeat(np.arange(len(rows)), np.diff(self.splits))
        self.asks_new = np.bincount(of_row, self.new, len(rows)) > 0

    def part(self, queries, only=None):
        """CSR truth of some queries (bool [Q]), of all labels or of those in `only` (bool)."""
        of_row = np.repeat(np.arange(len(self.splits) - 1), np.diff(self.splits))
        kept = queries[of_row] & (True if only is None else only)
        counts = np.bincount(of_row[kept], minlength=len(queries))[queries]
        return row_splits(counts), self.labels[kept]

    def without_own(self, ids):
        """Rankings without the labels that have the query's own title."""
        own = [self.titles.get(text, ()) for text in self.texts]
        splits = row_splits([*map(len, own)])
        labels = np.array([label for labels in own for label in labels], np.int64)
        return metrics.filter_pairs(ids, np.zeros(ids.shape, np.float32), splits, labels)[0]

    def judge(self, ids, new_ids=None):
        """Metrics of rankings [Q, 100]; `new_ids` are rankings of the new labels alone."""
        ask = self.asks_new
        result = {
            "asked, all labels": metrics.evaluate(ids[ask], *self.part(ask)),
            "asked, new labels": metrics.evaluate(ids[ask], *self.part(ask, self.new)),
            "others": metrics.evaluate(ids[~ask], *self.part(~ask)),
        }
        if new_ids is not None:
            truth = self.part(ask, self.new)
            result["asked, among the new"] = metrics.evaluate(new_ids[ask], *truth)
        return {
            group: {name: round(values[name], 2) for name in METRICS}
            for group, values in result.items()
        }


def rank_all(solar, texts, new=None):
    """The best 100 labels of the texts, and, by a filter, the best 100 of the new ones."""
    searcher = solar.searcher
    ids, _ = searcher.rank(searcher.inputs(texts), RANKED)
    if new is None:
        return ids, None
    found = searcher.search_batch(texts, k=RANKED, allow=new, explain=False)
    new_ids = np.full(ids.shape, -1, np.int32)
    for row, hits in enumerate(found):
        new_ids[row, : len(hits)] = [hit.label for hit in hits]
    return ids, new_ids


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="where data and runs are made")
    parser.add_argument("--dataset", default="debian", help="a card's name, without --train")
    for name in ("train", "test", "labels"):
        parser.add_argument(f"--{name}", help="your own files of titles")
    parser.add_argument("--share", type=float, default=0.05, help="of labels held out [0.05]")
    parser.add_argument("--preset", help="[the dataset's own]")
    parser.add_argument("--num_chunks", type=int, help="train only so many [the preset's]")
    parser.add_argument("--settings", default="", help="changes of the preset, name=value,...")
    text = "of a baseline, over train.txt, test.txt and all.txt; repeatable"
    parser.add_argument(
        "--predictions", action="append", default=[], metavar="NAME=FILE", help=text
    )
    parser.add_argument("--notuned", action="store_true", help="without the rows that are tuned")
    parser.add_argument("--name", help="of the results file [unseen/DATASET]")
    args = parser.parse_args()
    on = machine()
    if args.train:
        dataset = open_files(args.train, args.test, args.labels)
    else:
        dataset = open_named(args.dataset)
    kept_titles, new_titles, examples = split_data(dataset, args.share, args.out)
    truth = Truth(args.out / "test.txt", [*kept_titles, *new_titles], len(kept_titles))
    changes = {"num_chunks": args.num_chunks} if args.num_chunks else {}
    config = parse_settings(args.settings, load_preset(args.preset or dataset.preset, **changes))
    files = {name: args.out / f"{name}.txt" for name in ("train", "kept", "all", "test")}
    root = args.out / "run"
    make_run(root, open_files(files["train"], labels=files["kept"]), config, os.cpu_count())
    load_tensorflow()
    from solar_tf import Solar
    from solar_tf.training.stage import train

    train(root, trainers=None)
    rows = []

    def record(name, ids, new_ids=None, **facts):
        for own in ("kept", "dropped"):
            if own == "dropped":
                ids, new_ids = (x if x is None else truth.without_own(x) for x in (ids, new_ids))
            judged = truth.judge(ids[:, :100], new_ids)
            rows.append({"labels added": name, "own title": own, **facts, **judged})
            say(f"{name}, own title {own}: {judged}")

    solar = Solar.load(root)
    record("none", rank_all(solar, truth.texts)[0])
    for how, *choice in PLACEMENTS:
        shutil.rmtree(root / "catalogue", ignore_errors=True)
        solar = Solar.load(root)
        new = solar.add_labels(new_titles, how, *choice)
        loads = solar.searcher.loads()
        facts = {"largest bucket": int(loads.max())}
        choices, within, lift, share = choice
        name = f"content, lift {lift:g}, {choices} choices within {within:g}, share {share:g}"
        name = how if how == "hash" else name
        record(name, *rank_all(solar, truth.texts, new), **facts)
    for how in () if args.notuned else ("hash", "content"):
        for folder in ("catalogue", "tuned"):
            shutil.rmtree(root / folder, ignore_errors=True)
        solar = Solar.load(root)
        new = solar.add_labels(new_titles, how)
        solar.tune(*examples, replay=REPLAY)
        facts = {"rows learned from": len(examples[0])}
        record(f"{how}, then tuned", *rank_all(solar, truth.texts, new), **facts)
    for folder in ("catalogue", "tuned"):
        shutil.rmtree(root / folder, ignore_errors=True)
    for text in args.predictions:
        name, _, path = text.partition("=")
        record(name, read_arrays(path, "the baseline")["ids"])
    name = args.name or f"unseen/{dataset.name}"
    content = {
        "held out": len(new_titles), "labels": len(dataset.label_titles),
        "queries that ask for them": int(truth.asks_new.sum()),
        "other queries": int((~truth.asks_new).sum()), "config": config.to_dict(),
    }  # fmt: skip
    write_json(args.out / "facts.json", content)
    write_results(name, [content, *rows], on)
    groups = ("asked, all labels", "asked, new labels", "asked, among the new", "others")
    for group in groups:
        say(f"\n{group}")
        cells = [
            [row["labels added"], row["own title"], *(row[group][name] for name in METRICS)]
            for row in rows
            if group in row
        ]
        say(table(["labels added", "own title", *METRICS], cells))


if __name__ == "__main__":
    main()
