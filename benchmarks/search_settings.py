"""Compare settings of one chunk on training rows held out for the purpose.

    python benchmarks/search_settings.py --data FOLDER --out FOLDER \\
        --settings hidden_dim=512,dropout=0.3 --settings hidden_dim=1024,dropout=0.5

Each line of settings trains one chunk with one thread and is judged by its buckets on the
held-out rows: how many of the likeliest 1, 5 and 20 buckets are true (P@k), the share of
the true buckets among the first 100 (R@100), and the loss. All but the loss compare only
settings of the same number of buckets. The test split plays no part, so what it says of
the chosen settings stays honest. Rows are added to OUT/settings.jsonl.
"""

import argparse
import dataclasses
import json
import lzma
import os
import random
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from solar_tf.runtime.devices import load_tensorflow

HELD_OUT = 10_000


def hold_out(data, out):
    """Split the training file into training and held-out rows; returns their paths."""
    paths = out / "train.txt", out / "held_out.txt"
    if not all(path.exists() for path in paths):
        out.mkdir(parents=True, exist_ok=True)
        with lzma.open(data / "train.txt.xz", "rt", encoding="utf-8") as file:
            lines = file.readlines()
        chosen = set(random.Random(0).sample(range(len(lines)), HELD_OUT))
        for path, kept in zip(paths, (False, True), strict=True):
            rows = (line for i, line in enumerate(lines) if (i in chosen) == kept)
            path.write_text("".join(rows), encoding="utf-8")
    return paths


def judge(run, chunk):
    """Bucket metrics of a trained chunk on the run's test rows."""
    from solar_tf.retrieval.encoder import TensorFlowEncoder
    from solar_tf.retrieval.forward import query_batches
    from solar_tf.training.model import inputs_of

    scores = TensorFlowEncoder(run).load(run.paths.chunk(chunk))
    hits, recall, loss, rows = np.zeros(20), 0.0, 0.0, 0
    for batch in query_batches(run, chunk, 0, run.summary["test"]["rows"], targets=True):
        probabilities = scores(inputs_of(batch))
        truth = np.zeros(probabilities.shape, bool)
        splits = batch["bucket_splits"].numpy()
        counts = np.diff(splits)
        truth[np.repeat(np.arange(len(counts)), counts), batch["buckets"].numpy()] = True
        best = np.argsort(-probabilities, axis=1)[:, :100]
        found = np.take_along_axis(truth, best, axis=1)
        hits += found[:, :20].sum(axis=0)
        recall += (found.sum(axis=1) / np.maximum(counts, 1)).sum()
        clipped = np.clip(np.where(truth, probabilities, 1 - probabilities), 1e-7, 1)
        loss -= float(np.log(clipped).sum())
        rows += len(counts)
    cumulated = 100 * np.cumsum(hits) / rows
    return {
        **{f"P@{k}": round(float(cumulated[k - 1]) / k, 2) for k in (1, 5, 20)},
        "R@100": round(100 * float(recall) / rows, 2),
        "loss": round(loss / rows, 3),
    }


def parse_settings(text, config):
    types = {field.name: field.type for field in dataclasses.fields(config)}
    pairs = (pair.split("=") for pair in text.split(",") if pair)
    return dataclasses.replace(config, **{name: types[name](value) for name, value in pairs})


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="train.txt.xz and labels.txt.xz")
    parser.add_argument("--out", type=Path, required=True, help="where the runs are made")
    parser.add_argument("--preset", default="debian", help="what the settings change")
    parser.add_argument("--settings", action="append", required=True, help="name=value,...")
    parser.add_argument("--chunks", type=int, default=1, help="chunks to train and judge")
    args = parser.parse_args()
    load_tensorflow(1)
    from solar_tf.config import load_preset
    from solar_tf.datasets.dataset import open_files
    from solar_tf.preprocessing.stage import preprocess
    from solar_tf.run.files import read_json
    from solar_tf.training.stage import train

    train_path, held_out = hold_out(args.data, args.out)
    dataset = open_files(train_path, held_out, args.data / "labels.txt.xz")
    for text in args.settings:
        config = parse_settings(text, load_preset(args.preset, num_chunks=args.chunks))
        run = preprocess(args.out / text.replace("=", "").replace(",", "_"), dataset, config, 1)
        train(run.paths.root, trainers=1)
        for chunk in range(args.chunks):
            history = read_json(run.paths.chunk(chunk) / "history.json")
            row = {
                "settings": text,
                "chunk": chunk,
                **judge(run, chunk),
                "train_loss": round(history[-1]["loss"], 3),
                "seconds": round(sum(epoch["seconds"] for epoch in history)),
                "time": time.strftime("%H:%M"),
            }
            with open(args.out / "settings.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(row, flush=True)


if __name__ == "__main__":
    main()
