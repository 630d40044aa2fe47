"""From two files of the XML repository to a table of P@k.

    python examples/xml_repo_table.py train.txt test.txt

The files are text with a header `rows features labels`, then lines `label,label feature:value`:
http://manikvarma.org/downloads/XC/XMLRepository.html. Without files, the program makes two.
"""

import random
import sys
import tempfile
from pathlib import Path

from solar_tf.config import load_preset
from solar_tf.datasets.dataset import open_files
from solar_tf.preprocessing.stage import preprocess
from solar_tf.runtime.devices import load_tensorflow

NUM_FEATURES, NUM_LABELS = 200, 100


def make_file(path, num_rows):
    """Rows with two labels, most of which show as a feature, beside three features of noise."""
    lines = [f"{num_rows} {NUM_FEATURES} {NUM_LABELS}"]
    for _ in range(num_rows):
        labels = random.sample(range(NUM_LABELS), 2)
        shown = labels[: random.choice((1, 2, 2))]
        features = {*shown, *random.sample(range(NUM_LABELS, NUM_FEATURES), 3)}
        pairs = " ".join(f"{feature}:1" for feature in sorted(features))
        lines.append(f"{labels[0]},{labels[1]} {pairs}")
    path.write_text("\n".join(lines) + "\n")
    return path


def main(arguments):
    load_tensorflow()  # without its messages, which the next imports would let it print
    from solar_tf.retrieval.evaluation import infer
    from solar_tf.training.stage import train

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        random.seed(0)
        sizes = {"train.txt": 2000, "test.txt": 200}
        files = arguments or [make_file(folder / name, rows) for name, rows in sizes.items()]
        network = {"num_chunks": 4, "num_buckets": 50, "hidden_dim": 64}
        config = load_preset("debian", **network, batch_size=50, epochs=10, learning_rate=1e-2)
        preprocess(folder / "run", open_files(*files), config, workers=1)
        train(folder / "run")
        rows = infer(folder / "run", top_buckets=(5, 20), scores=("evidence",))
    print("\n| SOLAR |    P@1 |   P@3 |   P@5 |\n|-------|-------:|------:|------:|")
    for row in rows:
        print(f"| {row['setting']:5} | {row['P@1']:6.2f} | {row['P@3']:5.2f} | {row['P@5']:5.2f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
