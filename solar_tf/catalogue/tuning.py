"""Fine-tune the chunks on new rows, with some of the old ones so that nothing is forgotten.

Tuned weights are stored beside the trained ones, which stay as they are. They are used as soon as
all chunks have them.
"""

import numpy as np

from solar_tf.datasets.formats import open_source
from solar_tf.datasets.source import concatenate
from solar_tf.datasets.vocabulary import Vocabulary
from solar_tf.errors import UserError
from solar_tf.preprocessing import hashing
from solar_tf.retrieval.encoder import Inputs
from solar_tf.run.changes import changing, use_tuned
from solar_tf.run.directory import open_run
from solar_tf.run.files import atomic_folder, delete_folder, read_arrays
from solar_tf.run.index import open_index
from solar_tf.run.weights import not_finite, save_weights
from solar_tf.runtime.console import progress
from solar_tf.runtime.ragged import row_splits, take_rows

EPOCHS, REPLAY, LEARNING_RATE = 3, 4.0, 5e-4


class Rows:
    """Features of rows, weighted but not hashed yet, and true labels; both in CSR form."""

    def __init__(self, splits, ids, values, label_splits, labels):
        self.features, self.labels = (splits, ids, values), (label_splits, labels)

    def __len__(self):
        return len(self.labels[0]) - 1


def read_rows(root, path):
    """X and Y for `tune`, from a file of rows of the same kind as the run's."""
    run, source = open_run(root), open_source(path)
    if source.kind != run.dataset["kind"]:
        raise UserError(f"{path}: {source.kind} rows, for a run of {run.dataset['kind']}")
    rows = concatenate(source.parse(block) for block in source.blocks(10_000))
    X = rows.texts
    if X is None:
        import scipy.sparse

        shape = len(rows), run.dataset["num_features"]
        arrays = rows.values, rows.features, rows.feature_splits
        X = scipy.sparse.csr_matrix(arrays, shape=shape)
    return X, (rows.label_splits, rows.labels)


def tune(root, X, Y, epochs=EPOCHS, replay=REPLAY, learning_rate=LEARNING_RATE, seed=0):
    """Tune all chunks of the run at `root` on new rows; returns the number of rows learned from.

    X is a list of titles or a CSR matrix, Y the CSR arrays of their labels (splits, labels).
    Each new row brings `replay` rows of the training data with it.
    """
    run = open_run(root)
    if run.dataset["kind"] == "dense":
        raise UserError(
            f"{root}: a run of dense features, and only titles and sparse ones are tuned"
        )
    if epochs < 1 or replay < 0 or not learning_rate > 0:
        raise UserError("tuning takes epochs and a learning rate above 0, and no negative replay")
    chunks = run.choose_chunks()
    with changing(run) as changes:
        if len(Y[1]) and Y[1].max() >= changes.num_labels:
            raise UserError(
                f"label {Y[1].max()} is not below the {changes.num_labels} labels: add it first"
            )
        replayed = round(replay * (len(Y[0]) - 1))
        rows = _join([_new_rows(run, X, Y), *_old_rows(run, replayed, seed)])
        number = changes.next
        delete_folder(run.paths.tuned(number))
        with progress(len(chunks) * epochs * len(rows), "tuning", "row") as bar:
            for chunk in chunks:
                weights = _tune_chunk(run, changes, chunk, rows, epochs, learning_rate, seed, bar)
                if bad := not_finite(weights):
                    raise UserError(
                        f"chunk {chunk}: {' and '.join(bad)} hold NaN or Inf: use a smaller "
                        "learning rate"
                    )
                with atomic_folder(run.paths.tuned_chunk(number, chunk)) as folder:
                    facts = {"chunk": chunk, "seed": run.seeds[chunk], "seconds": 0.0}
                    save_weights(folder, weights, facts | {"tuned_rows": len(rows)})
        use_tuned(run, changes, number)
    return len(rows)


def _new_rows(run, X, Y):
    kind, weights = run.dataset["kind"], None
    if run.paths.token_weights.exists():
        weights = np.load(run.paths.token_weights, allow_pickle=False)
    vocabulary = Vocabulary.load(run.paths.vocabulary) if kind == "text" else None
    inputs = Inputs(run, kind, X, vocabulary, weights)
    return Rows(inputs.splits, inputs.ids, inputs.values, *Y)


def _old_rows(run, count, seed):
    """`count` random training rows, as the Rows of each shard."""
    generator = np.random.default_rng([seed, 1])
    chosen = np.sort(generator.permutation(run.summary["train"]["rows"])[:count])
    pieces, first = [], 0
    for shard in range(run.summary["train"]["shards"]):
        arrays = read_arrays(run.paths.rows("train", shard), "preprocess.py")
        size = len(arrays["label_splits"]) - 1
        here = chosen[(chosen >= first) & (chosen < first + size)] - first
        first += size
        splits, places = take_rows(arrays["feature_splits"], here)
        features = splits, arrays["features"][places], arrays["values"][places]
        splits, places = take_rows(arrays["label_splits"], here)
        pieces.append(Rows(*features, splits, arrays["labels"][places]))
    return pieces


def _join(pieces):
    def join(arrays):
        splits, *columns = zip(*arrays, strict=True)
        counts = np.concatenate([np.diff(part) for part in splits])
        return row_splits(counts), *map(np.concatenate, columns)

    return Rows(*join([p.features for p in pieces]), *join([p.labels for p in pieces]))


def _tune_chunk(run, changes, chunk, rows, epochs, learning_rate, seed, bar):
    """Train one chunk on the rows; returns its weights by name."""
    import tensorflow as tf

    from solar_tf.training.model import SPARSE_INPUTS, TARGETS, open_chunk
    from solar_tf.training.optimizer import LinearDecay
    from solar_tf.training.trainer import ShowProgress

    size = run.config.batch_size
    steps = -(-len(rows) // size)
    model = open_chunk(run, chunk, changes.weights(run, chunk))
    model.compile_adam(LinearDecay(learning_rate, epochs * steps))
    dataset = tf.data.Dataset.from_generator(
        lambda: _batches(run, changes, chunk, rows, epochs, seed),
        output_signature=SPARSE_INPUTS | dict.fromkeys(TARGETS, tf.TensorSpec([None], tf.int32)),
    )
    model.fit(
        dataset.apply(tf.data.experimental.assert_cardinality(epochs * steps)),
        callbacks=[ShowProgress(bar, size)],
        shuffle=False,
        verbose=0,
    )
    return {name: weight.numpy() for name, weight in model.weights_by_name().items()}


def _batches(run, changes, chunk, rows, epochs, seed):
    """Yield the batches of all epochs; every epoch has its own order (§3.2)."""
    splits, ids, values = rows.features
    hashed = hashing.hash_ids(ids, run.seeds[chunk], run.config.feature_dim)
    splits, ids, values = hashing.hash_features(splits, hashed, values)
    buckets = open_index(run, chunk).label_buckets()
    buckets = np.concatenate([buckets, changes.buckets[chunk]])
    target_splits, targets = hashing.or_targets(rows.labels[0], buckets[rows.labels[1]])
    generator = np.random.default_rng([seed, 2, chunk])
    for _ in range(epochs):
        order = generator.permutation(len(rows))
        for start in range(0, len(rows), run.config.batch_size):
            batch = order[start : start + run.config.batch_size]
            token_splits, tokens = take_rows(splits, batch)
            bucket_splits, buckets_taken = take_rows(target_splits, batch)
            yield {
                "ids": ids[tokens],
                "values": values[tokens],
                "row_splits": token_splits.astype(np.int32),
                "buckets": targets[buckets_taken],
                "bucket_splits": bucket_splits.astype(np.int32),
            }
