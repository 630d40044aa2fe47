"""Training and test batches from the TFRecord files that `solar_tf.run.records` writes.

Blocks of rows are read, and batches of them decoded, by threads that are ahead of who takes them:
a batch costs a thousandth of its training step (benchmarks/bench_records.py).
"""

import collections
import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from solar_tf.errors import UserError
from solar_tf.run.records import BUCKETS, DENSE, IDS, VALUES
from solar_tf.training.record_reader import decode, read_blocks

SHUFFLE_ROWS = 100_000  # about 20 MB of serialised rows at the sizes of §5.1
READ_ROWS = 10_000  # of a block, if nothing is shuffled
SPARSE = {IDS: np.int32, VALUES: np.float32}
TARGETS = {BUCKETS: np.int32}
END = object()


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

    A damaged file is a UserError, when the block that the damage is in is read.
    """
    sources = [paths] if dense_paths is None else [paths, dense_paths]
    if len({len(source) for source in sources}) != 1:
        raise ValueError(f"{len(paths)} files of buckets, but {len(dense_paths)} of dense inputs")
    key = None
    if seed is not None:
        generator = np.random.default_rng([seed, epoch])
        order = generator.permutation(len(paths))
        sources = [[source[k] for k in order] for source in sources]
        key = generator.integers(2**62)
    # Whole batches in every block, so that only the last block ends in a smaller one.
    size = READ_ROWS if seed is None else shuffle_rows
    size = max(1, -(-size // batch_size)) * batch_size
    blocks = itertools.zip_longest(*(read_blocks(source, size) for source in sources), fillvalue=())
    rows = _rows_of_batches(_ahead(blocks, 1), batch_size, key, skip)
    return _ahead((_to_tensors(*batch, dense_dim, targets) for batch in rows), 2)


def _ahead(items, depth):
    """The items, made by a thread up to `depth` before they are asked for."""
    iterator = iter(items)
    with ThreadPoolExecutor(1) as pool:
        pending = collections.deque(pool.submit(next, iterator, END) for _ in range(depth))
        try:
            while True:
                pending.append(pool.submit(next, iterator, END))
                item = pending.popleft().result()
                if item is END:
                    return
                yield item
        finally:
            for future in pending:
                future.cancel()


def _rows_of_batches(blocks, batch_size, key, skip):
    """The blocks that each batch is in, one for each source, and which rows of them it has.

    With a key, rows are in an order that is a pure function of it and the block's number.
    """
    for number, block in enumerate(blocks):
        num_rows = len(block[0])
        if any(len(other) != num_rows for other in block):
            raise UserError(
                "the records of buckets and those of dense inputs hold other rows: "
                "delete both and run preprocess.py again"
            )
        order = np.arange(num_rows)
        if key is not None:
            with tf.device("CPU"):
                order = tf.random.experimental.stateless_shuffle(
                    tf.range(num_rows), [key, number], alg="philox"
                ).numpy()
        for start in range(0, num_rows, batch_size):
            if skip:
                skip -= 1
            else:
                yield block, order[start : start + batch_size]


def _to_tensors(blocks, rows, dense_dim, targets):
    """Decode one batch; tensors are on the CPU, as those of TensorFlow's own pipelines are."""
    types = (SPARSE if dense_dim is None else {}) | (TARGETS if targets else {})
    columns = decode(blocks[0], rows, types)
    if dense_dim is None:
        splits, ids = columns[IDS]
        _check_lengths(blocks[0], rows, columns[VALUES][0], np.diff(splits))
        batch = {"ids": ids, "values": columns[VALUES][1], "row_splits": splits}
    else:
        splits, dense = decode(blocks[1], rows, {DENSE: np.float32})[DENSE]
        _check_lengths(blocks[1], rows, splits, dense_dim)
        batch = {"dense": dense.reshape(-1, dense_dim)}
    if targets:
        batch["bucket_splits"], batch["buckets"] = columns[BUCKETS]
    with tf.device("CPU"):
        return {name: tf.constant(array) for name, array in batch.items()}


def _check_lengths(block, rows, splits, lengths):
    wrong = np.flatnonzero(np.diff(splits) != lengths)
    if len(wrong):
        raise block.bad_row(rows[wrong[0]])
