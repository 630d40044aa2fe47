"""Training and test batches from the TFRecord files that `solar_tf.records` writes.

Serialised rows are batched first and parsed as a whole: one call of `tf.io.parse_example`
for a thousand rows costs a small part of a thousand calls (benchmarks/bench_records.py).
"""

import contextlib
import functools

import numpy as np
import tensorflow as tf

from solar_tf.records import BUCKETS, DENSE, IDS, VALUES, verify_records

SHUFFLE_ROWS = 100_000  # about 20 MB of serialised rows at the sizes of §5.1


def read_batches(
    paths,
    batch_size,
    *,
    seed=None,
    epoch=0,
    skip=0,
    shuffle_rows=SHUFFLE_ROWS,
    dense_paths=None,
    dense_dim=None,
    targets=True,
):
    """One epoch of a chunk's batches (§3.2), the last one as small as it comes out.

    Without a seed, rows come in the order of the files. With one, the files are shuffled,
    and then the rows within blocks of `shuffle_rows`: all rows alike when the epoch fits
    into one block, and about two serialised blocks are in memory. The order depends on nothing
    but (paths, batch_size, seed, epoch, shuffle_rows), so an interrupted epoch goes on after
    n batches with `skip=n`.

    Dense inputs (`dense_dim` floats a row) are read from `dense_paths`, which hold the same
    rows as `paths`, file by file. Without `targets`, buckets are not parsed.

    Yields dicts of tensors. Row i's tokens are ids[row_splits[i]:row_splits[i+1]]:
        ids            [tokens] int32      values    [tokens] float32
        row_splits     [batch+1] int32
        dense          [batch, dense_dim] float32, in place of the three above
        buckets        [targets] int32     bucket_splits  [batch+1] int32
    """
    sources = [paths] if dense_paths is None else [paths, dense_paths]
    sources = [[str(path) for path in source] for source in sources]
    if len({len(source) for source in sources}) != 1:
        raise ValueError(f"{len(paths)} files of buckets, but {len(dense_paths)} of dense inputs")
    if seed is None:
        batches = _read(sources, batch_size)
    else:
        generator = np.random.default_rng([seed, epoch])
        order = generator.permutation(len(paths))
        sources = [[source[k] for k in order] for source in sources]
        batches = _shuffle(sources, batch_size, shuffle_rows, generator.integers(2**62))
    parse = _parser(len(sources), dense_dim, targets)
    batches = batches.skip(skip).map(lambda *records: parse(records)).prefetch(2)
    options = tf.data.Options()
    options.deterministic = True
    # Nothing here is left to tune, and the tuner's bookkeeping costs more than it saves.
    options.autotune.enabled = False
    options.threading.max_intra_op_parallelism = 1
    return batches.with_options(options)


@contextlib.contextmanager
def damage_explained(*paths):
    """Turn what TensorFlow says of a damaged or missing record file into a UserError.

    Wrap the loop that consumes the batches: TensorFlow's message lacks the file's name, so
    all `paths` are checked again, without TensorFlow, until the culprit is found.
    """
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.NotFoundError):
        for path in paths:
            verify_records(path)
        raise


def _read(sources, size):
    """Vectors of up to `size` serialised rows, a tuple with one vector for each source."""
    return tf.data.Dataset.zip(
        tuple(tf.data.TFRecordDataset(source).batch(size) for source in sources)
    )


def _shuffle(sources, batch_size, shuffle_rows, key):
    """Batches of rows in an order that is a pure function of `key`.

    `Dataset.shuffle` would do, were its order not to change with tf.random.set_seed.
    """
    # Whole batches in every block, so that only the last block ends in a smaller one.
    block_size = max(1, -(-shuffle_rows // batch_size)) * batch_size

    def batches_of_block(block, records):
        order = tf.range(tf.size(records[0]))
        order = tf.random.experimental.stateless_shuffle(order, [key, block], alg="philox")
        starts = tf.data.Dataset.range(0, tf.size(order, tf.int64), batch_size)
        return starts.map(
            lambda start: tuple(
                tf.gather(record, order[start : start + batch_size]) for record in records
            )
        )

    return _read(sources, block_size).prefetch(1).enumerate().flat_map(batches_of_block)


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

    buckets = {BUCKETS: ragged(tf.int64)} if targets else {}
    if dense_dim is None:
        features = {IDS: ragged(tf.int64), VALUES: ragged(tf.float32)}
        parsed = tf.io.parse_example(records[0], features | buckets)
        batch = {
            "ids": tf.cast(parsed[IDS].values, tf.int32),
            "values": parsed[VALUES].values,
            "row_splits": parsed[IDS].row_splits,
        }
    else:
        dense = {DENSE: tf.io.FixedLenFeature([dense_dim], tf.float32)}
        batch = {"dense": tf.io.parse_example(records[1], dense)[DENSE]}
        parsed = tf.io.parse_example(records[0], buckets) if targets else {}
    if targets:
        batch["buckets"] = tf.cast(parsed[BUCKETS].values, tf.int32)
        batch["bucket_splits"] = parsed[BUCKETS].row_splits
    return batch
