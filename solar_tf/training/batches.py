"""Training and test batches from TFRecord files (§3.2), with tf.data.

Serialised rows are batched first and parsed as a whole: one call of `tf.io.parse_example`
for a thousand rows costs a small part of a thousand calls (benchmarks/bench_records.py).
"""

import contextlib
import functools

import numpy as np
import tensorflow as tf

from solar_tf.errors import UserError
from solar_tf.run.records import BUCKETS, DENSE, IDS, VALUES, count_records, verify_records

SHUFFLE_ROWS = 100_000  # about 20 MB of serialised rows at the sizes of §5.1


def read_batches(
    paths,
    batch_size,
    *,
    seed=None,
    epochs=range(1),
    skip=0,
    shuffle_rows=SHUFFLE_ROWS,
    dense_paths=None,
    dense_dim=None,
    targets=True,
):
    """The batches of some epochs of a chunk, as a tf.data.Dataset; epochs end with a smaller batch.

    Without a seed, rows come in the order of the files. With one, the files are shuffled, and
    then the rows within blocks of `shuffle_rows`: an epoch that fits into one block is shuffled
    as a whole. About two serialised blocks are in memory. The order depends on nothing but
    (paths, batch_size, seed, epoch, shuffle_rows), so an interrupted training goes on after n
    batches of the first epoch with `skip=n`.

    Dense inputs (`dense_dim` floats a row) are read from `dense_paths`, which hold the same
    rows as `paths`, file by file. Without `targets`, buckets are not parsed.

    Yields dicts of tensors. Row i's tokens are ids[row_splits[i]:row_splits[i+1]]:
        ids            [tokens] int32      values    [tokens] float32
        row_splits     [batch+1] int32
        dense          [batch, dense_dim] float32, in place of the three above
        buckets        [targets] int32     bucket_splits  [batch+1] int32
    """
    sources = [paths] if dense_paths is None else [paths, dense_paths]
    if len({len(source) for source in sources}) != 1:
        raise ValueError(f"{len(paths)} files of buckets, but {len(dense_paths)} of dense inputs")
    for files in zip(*sources, strict=True) if dense_paths else ():
        if len({count_records(file) for file in files}) != 1:
            raise UserError(
                f"{files[0]}: {files[1]} holds other rows: delete both and run preprocess.py again"
            )
    sources = tf.constant([[str(path) for path in source] for source in sources])
    if seed is None:
        batches = _read(sources, batch_size).repeat(len(epochs))
    else:
        batches = _shuffle(sources, batch_size, shuffle_rows, seed, epochs)
    parse = _parser(len(sources), dense_dim, targets)
    batches = batches.skip(skip).map(lambda *records: parse(records)).prefetch(2)
    options = tf.data.Options()
    options.deterministic = True
    # Nothing here is left to tune, and the tuner's bookkeeping costs more than it saves.
    options.autotune.enabled = False
    options.threading.max_intra_op_parallelism = 1
    return batches.with_options(options)


def _read(sources, size):
    """Vectors of up to `size` serialised rows, a tuple with one vector for each source."""
    return tf.data.Dataset.zip(
        tuple(tf.data.TFRecordDataset(source).batch(size) for source in tf.unstack(sources))
    )


def _shuffle(sources, batch_size, shuffle_rows, seed, epochs):
    """Batches of rows in an order that is a pure function of seed and epoch.

    `Dataset.shuffle` would do, were its order not to change with tf.random.set_seed.
    """
    generators = [np.random.default_rng([seed, epoch]) for epoch in epochs]
    orders = tf.constant([generator.permutation(sources.shape[1]) for generator in generators])
    keys = tf.constant([generator.integers(2**62) for generator in generators])
    # Whole batches in every block, so that only the last block ends in a smaller one.
    block_size = max(1, -(-shuffle_rows // batch_size)) * batch_size

    def blocks_of_epoch(epoch):
        blocks = _read(tf.gather(sources, orders[epoch], axis=1), block_size)
        return blocks.enumerate().map(lambda number, records: (keys[epoch], number, records))

    def batches_of_block(key, number, records):
        order = tf.range(tf.size(records[0]))
        order = tf.random.experimental.stateless_shuffle(order, [key, number], alg="philox")
        starts = tf.data.Dataset.range(0, tf.size(order, tf.int64), batch_size)
        return starts.map(
            lambda start: tuple(
                tf.gather(record, order[start : start + batch_size]) for record in records
            )
        )

    # The first block of an epoch is read while the one before is still in training.
    blocks = tf.data.Dataset.range(len(epochs)).flat_map(blocks_of_epoch).prefetch(1)
    return blocks.flat_map(batches_of_block)


@functools.cache
def _parser(num_sources, dense_dim, targets):
    """`_parse`, traced once for all datasets: inference opens one for each chunk."""
    records = (tf.TensorSpec([None], tf.string),) * num_sources
    parse = functools.partial(_parse, dense_dim=dense_dim, targets=targets)
    return tf.function(parse, input_signature=(records,))


def _parse(records, dense_dim, targets):
    """Parse one batch of serialised rows, [batch] strings for each source."""

    def ragged(dtype):
        return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int32)

    features = {BUCKETS: ragged(tf.int64)} if targets else {}
    if dense_dim is None:
        features |= {IDS: ragged(tf.int64), VALUES: ragged(tf.float32)}
    parsed = tf.io.parse_example(records[0], features) if features else {}
    if dense_dim is None:
        splits = parsed[IDS].row_splits
        same = tf.debugging.assert_equal(splits, parsed[VALUES].row_splits, "ids and values")
        with tf.control_dependencies([same]):
            ids = tf.cast(parsed[IDS].values, tf.int32)
        batch = {"ids": ids, "values": parsed[VALUES].values, "row_splits": splits}
    else:
        dense = {DENSE: tf.io.FixedLenFeature([dense_dim], tf.float32)}
        batch = {"dense": tf.io.parse_example(records[1], dense)[DENSE]}
    if targets:
        batch["buckets"] = tf.cast(parsed[BUCKETS].values, tf.int32)
        batch["bucket_splits"] = parsed[BUCKETS].row_splits
    return batch


@contextlib.contextmanager
def damage_explained(paths, dense_paths=(), dense_dim=None):
    """Turn what TensorFlow says of damaged or missing records into a UserError with the file.

    Wrap the loop that takes the batches. TensorFlow's message lacks the file's name, so all files
    are read again until the bad record is found.
    """
    try:
        yield
    except (
        tf.errors.DataLossError,
        tf.errors.NotFoundError,
        tf.errors.InvalidArgumentError,
    ) as error:
        for path in (*paths, *dense_paths):
            verify_records(path)
        if isinstance(error, tf.errors.InvalidArgumentError):
            _find_bad_row(paths, dense_paths, dense_dim)
        raise


def _find_bad_row(paths, dense_paths, dense_dim):
    """Name the first record that is sound, but no row of a chunk."""
    parse = _parser(1 if dense_dim is None else 2, dense_dim, False)
    for path in dense_paths or paths:
        for number, record in enumerate(tf.data.TFRecordDataset(str(path)).batch(1)):
            try:
                parse((record,) * (1 if dense_dim is None else 2))
            except tf.errors.InvalidArgumentError:
                raise UserError(
                    f"{path}: record {number} is no row of this chunk: delete the file and run "
                    "preprocess.py again"
                )
