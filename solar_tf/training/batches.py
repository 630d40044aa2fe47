"""Training and test batches from TFRecord files (§3.2), with tf.data.

Serialised rows are batched first and then parsed together: one call of `tf.io.parse_example` for a
thousand rows is much faster than a thousand calls (benchmarks/bench_records.py).
"""

import contextlib
import functools

import numpy as np
import tensorflow as tf

from solar_tf.errors import UserError
from solar_tf.run.records import BUCKETS, DENSE, IDS, VALUES, count_records, verify_records

READ_BYTES = 1 << 20  # of a file that are read at a time
SHUFFLE_ROWS = 100_000  # about 20 MB of serialised rows at the sizes of §5.1


def read_batches(
    paths,
    batch_size,
    *,
    seed=None,
    epoch=0,
    num_epochs=None,
    skip=0,
    shuffle_rows=SHUFFLE_ROWS,
    dense_paths=None,
    dense_dim=None,
    targets=True,
):
    """The batches of one epoch of a chunk, as a tf.data.Dataset; the last one may be smaller.

    Without a seed, rows come in the order of the files. With a seed, the files are shuffled, and
    then the rows within blocks of `shuffle_rows`. An epoch that fits into one block is shuffled as
    a whole and kept in memory; of a larger one, about two blocks are in memory. The order depends
    only on (paths, batch_size, seed, epoch, shuffle_rows), so an interrupted epoch goes on after n
    batches with `skip=n`. The epoch may be a tf.Variable below `num_epochs`: every iteration over
    the dataset reads the epoch that the variable holds when it begins.

    Dense inputs (`dense_dim` floats a row) come from `dense_paths`, which hold the same rows as
    `paths`, file by file. Without `targets`, buckets are not parsed.

    Yields dicts of tensors. Row i's tokens are ids[row_splits[i]:row_splits[i+1]]:
        ids            [tokens] int32      values    [tokens] float32
        row_splits     [batch+1] int32
        dense          [batch, dense_dim] float32, in place of the three above
        buckets        [targets] int32     bucket_splits  [batch+1] int32
    """
    sources = [paths] if dense_paths is None else [paths, dense_paths]
    counts = []
    for files in zip(*sources, strict=True):
        rows = [count_records(file) for file in files]
        if len({*rows}) != 1:
            raise UserError(
                f"{files[0]}: {files[1]} holds other rows: delete both and run preprocess.py again"
            )
        counts.append(rows[0])
    parse = _parser(len(sources), dense_dim, targets)
    sources = tf.constant([[str(path) for path in source] for source in sources])
    if seed is None:
        batches = _read(sources, batch_size).skip(skip).map(lambda *records: parse(records))
    else:
        epochs = [epoch] if num_epochs is None else range(num_epochs)
        place = 0 if num_epochs is None else epoch
        order = _Order(seed, epochs, len(paths))
        # Whole batches in every block, so that only the last block ends in a smaller one.
        block_size = max(1, -(-shuffle_rows // batch_size)) * batch_size
        if sum(counts) <= block_size:
            blocks = _read_once(sources, counts, parse, order, place)
        else:
            blocks = _read_blocks(sources, block_size, parse, order, place)
        batches = blocks.flat_map(functools.partial(_shuffled, batch_size=batch_size)).skip(skip)
    batches = batches.map(_flatten).prefetch(2)
    total = max(0, -(-sum(counts) // batch_size) - skip)
    options = tf.data.Options()
    options.deterministic = True
    # There is nothing to tune here, and the tuner's bookkeeping costs time.
    options.autotune.enabled = False
    options.threading.max_intra_op_parallelism = 1
    return batches.apply(tf.data.experimental.assert_cardinality(total)).with_options(options)


class _Order:
    """The order of the files, and the key that shuffles the rows, of each epoch."""

    def __init__(self, seed, epochs, num_files):
        generators = [np.random.default_rng([seed, epoch]) for epoch in epochs]
        self.files = tf.constant([generator.permutation(num_files) for generator in generators])
        self.keys = tf.constant([generator.integers(2**62) for generator in generators])


def _read(sources, size):
    """Tuples of vectors of up to `size` serialised rows, one vector for each source."""
    return tf.data.Dataset.zip(
        tuple(
            tf.data.TFRecordDataset(source, buffer_size=READ_BYTES).batch(size)
            for source in tf.unstack(sources)
        )
    )


def _read_once(sources, counts, parse, order, place):
    """One block of all rows, parsed once for all epochs."""
    rows = tf.RaggedTensor.from_row_lengths(tf.range(sum(counts)), counts)
    blocks = _read(sources, max(1, sum(counts))).map(lambda *records: parse(records)).cache()

    def in_order(block):
        epoch = tf.convert_to_tensor(place)
        return order.keys[epoch], np.int64(0), block, tf.gather(rows, order.files[epoch]).values

    return blocks.map(in_order)


def _read_blocks(sources, size, parse, order, place):
    """Blocks of `size` rows from the files in the order of the epoch."""

    def blocks(_):
        epoch = tf.convert_to_tensor(place)
        found = _read(tf.gather(sources, order.files[epoch], axis=1), size)
        found = found.map(lambda *records: parse(records)).enumerate()
        return found.map(
            lambda number, block: (order.keys[epoch], number, block, tf.range(_count_rows(block)))
        )

    return tf.data.Dataset.range(1).flat_map(blocks).prefetch(1)


def _shuffled(key, number, block, rows, batch_size):
    """The batches of a block, in an order that is a pure function of key and number.

    The order of `Dataset.shuffle` would change with tf.random.set_seed.
    """
    rows = tf.random.experimental.stateless_shuffle(rows, [key, number], alg="philox")
    starts = tf.data.Dataset.range(0, tf.size(rows, tf.int64), batch_size)

    def batch(start):
        chosen = rows[start : start + batch_size]
        return {name: tf.gather(column, chosen) for name, column in block.items()}

    return starts.map(batch)


def _count_rows(block):
    column = next(iter(block.values()))
    return column.nrows(tf.int32) if isinstance(column, tf.RaggedTensor) else tf.shape(column)[0]


@functools.cache
def _parser(num_sources, dense_dim, targets):
    """`_parse`, traced once for all datasets, since inference opens one for each chunk."""
    records = (tf.TensorSpec([None], tf.string),) * num_sources
    parse = functools.partial(_parse, dense_dim=dense_dim, targets=targets)
    return tf.function(parse, input_signature=(records,))


def _parse(records, dense_dim, targets):
    """Parse serialised rows, [n] strings for each source, into columns of n rows."""

    def ragged(dtype):
        return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int32)

    features = {BUCKETS: ragged(tf.int64)} if targets else {}
    if dense_dim is None:
        features |= {IDS: ragged(tf.int64), VALUES: ragged(tf.float32)}
    block = tf.io.parse_example(records[0], features) if features else {}
    for name in {IDS, BUCKETS} & block.keys():
        block[name] = tf.cast(block[name], tf.int32)
    if dense_dim is None:
        splits = block[IDS].row_splits, block[VALUES].row_splits
        with tf.control_dependencies([tf.debugging.assert_equal(*splits, "ids and values")]):
            block[IDS] = tf.identity(block[IDS])
    else:
        dense = {DENSE: tf.io.FixedLenFeature([dense_dim], tf.float32)}
        block |= tf.io.parse_example(records[1], dense)
    return block


def _flatten(block):
    """The columns of a batch as the model takes them."""
    if DENSE in block:
        batch = {"dense": block[DENSE]}
    else:
        ids, values = block[IDS], block[VALUES]
        batch = {"ids": ids.values, "values": values.values, "row_splits": ids.row_splits}
    if BUCKETS in block:
        batch |= {"buckets": block[BUCKETS].values, "bucket_splits": block[BUCKETS].row_splits}
    return batch


@contextlib.contextmanager
def damage_explained(paths, dense_paths=(), dense_dim=None):
    """Turn TensorFlow's errors at damaged or missing records into a UserError with the file.

    Wrap the loop that takes the batches. TensorFlow's message lacks the file's name, so all files
    are read again until the bad record is found.
    """
    invalid = tf.errors.InvalidArgumentError
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.NotFoundError, invalid) as error:
        for path in (*paths, *dense_paths):
            verify_records(path)
        if isinstance(error, invalid):
            _find_bad_row(paths, dense_paths, dense_dim)
        raise


def _find_bad_row(paths, dense_paths, dense_dim):
    """Raise UserError for the first record that is undamaged, but not a row of this chunk."""
    num_sources = 1 if dense_dim is None else 2
    parse = _parser(num_sources, dense_dim, False)
    for path in dense_paths or paths:
        for number, record in enumerate(tf.data.TFRecordDataset(str(path)).batch(1)):
            try:
                parse((record,) * num_sources)
            except tf.errors.InvalidArgumentError:
                raise UserError(
                    f"{path}: record {number} is no row of this chunk: delete the file and run "
                    "preprocess.py again"
                )
