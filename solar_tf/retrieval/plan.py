"""What stage 3 needs in memory, and what fits into `--max_memory`."""

import itertools

from solar_tf.retrieval.encoder import STREAMS
from solar_tf.retrieval.rankers import queries_per_task
from solar_tf.run.weights import count_parameters
from solar_tf.runtime.console import say, size
from solar_tf.runtime.memory import PROCESS_BYTES, too_small

RUNTIME_BYTES = 0.7e9  # TensorFlow and Python themselves
TOKENS = 64  # of a query: an upper bound of the average in a batch
BATCH_SIZES = (1000, 250, 50)


def plan_inference(stage, workers, most_queries, limit):
    """Workers, queries of a forward pass and of a block; UserError if nothing fits.

    `stage` is an `evaluation.Inference`. Fewer queries at a time cost little, fewer workers much.
    """
    shared, query, row, worker = _needs(stage)

    def need(workers, batch_size, block_size):
        processes = workers * (worker + (PROCESS_BYTES if workers > 1 else 0))
        return shared + processes + row * batch_size + query * block_size

    for fewer, batch_size in itertools.product(range(workers, 0, -1), BATCH_SIZES):
        room = limit - need(fewer, batch_size, 0)
        if room >= batch_size * query:
            block = min(most_queries, int(room // query))
            if (fewer, batch_size, block) != (workers, BATCH_SIZES[0], most_queries):
                say(
                    f"--max_memory {size(limit)}: {fewer} of {workers} workers, blocks of "
                    f"{block:,} queries"
                )
            return fewer, batch_size, block
    raise too_small(limit, need(1, BATCH_SIZES[-1], BATCH_SIZES[-1]))


def _needs(stage):
    """Bytes in use by all, by each query of a block, each row of a batch and each worker.

    Mapped files count as well: they stay in memory as long as there is room.
    """
    config, num_labels = stage.run.config, stage.delta.num_labels
    num_chunks, buckets, hidden = len(stage.chunks), config.num_buckets, config.hidden_dim
    index = 4 * num_chunks * (num_labels + buckets)
    wide = 4 * num_chunks * buckets  # a query's probabilities of all chunks
    shared = RUNTIME_BYTES + 4 * count_parameters(config, stage.run.input_dim) + index
    shared += 40 * num_labels + 200 * stage.num_queries  # propensities, counts, true labels
    query = 8 * num_chunks * stage.max_m + 36 * sum(setting.k for setting in stage.settings)
    worker = queries_per_task(stage.max_m) * 24 * num_chunks * max(stage.max_m, 1)
    if stage.full:
        shared += index
        query += wide
        worker += 4 * queries_per_task(None) * wide
    # For each batch in work: logits, probabilities and a spare; the gathered rows of tokens.
    row = 4 * STREAMS * (3 * buckets + 3 * TOKENS * hidden)
    return shared, query, row, worker
