"""One training step at the paper's size, against its bare matrix products and plain Keras.

    python benchmarks/bench_training.py                100K x 4096 x 30K, batch 1000, 10 GB
    python benchmarks/bench_training.py --small        a twentieth of it, to try the program

Each contender runs in a process of its own, so that its peak memory is its own, and the
rounds of the contenders alternate, so that a busy machine is unfair to none. Plain Keras runs as
TensorFlow comes, and once more with oneDNN's products, which the programs of this project turn on
where TensorFlow leaves them off, as it does without AVX-512.
"""

import argparse
import functools
import json
import os
import resource
import statistics
import subprocess
import sys
import time

from common import cost, faster, figure, machine, print_rows, write_results

from solar_tf.runtime.devices import cpu_has_bfloat16

ONEDNN = "TF_ENABLE_ONEDNN_OPTS"
TOKENS, LABELS = 9, 4
SIZES = {False: (100_000, 4096, 30_000, 1000), True: (20_000, 512, 8_000, 256)}


def batch_arrays(feature_dim, num_buckets, batch_size, seed):
    """A batch of TOKENS tokens and LABELS buckets a row; tokens follow Zipf's law, as words do."""
    import numpy as np

    generator = np.random.default_rng(seed)
    ids = np.minimum(generator.zipf(1.3, (batch_size, TOKENS)) - 1, feature_dim - 1)
    buckets = np.sort(generator.integers(num_buckets, size=(batch_size, LABELS)), axis=1)
    return ids.astype(np.int32), buckets.astype(np.int32)


def products_step(feature_dim, hidden_dim, num_buckets, batch_size):
    """The three matrix products that no implementation of the step can avoid."""
    import tensorflow as tf

    hidden = tf.random.normal([batch_size, hidden_dim])
    kernel = tf.random.normal([hidden_dim, num_buckets])
    error = tf.random.normal([batch_size, num_buckets])

    @tf.function
    def step():
        # One element of each keeps them from being optimised away.
        return (
            tf.matmul(hidden, kernel)[0, 0]
            + tf.matmul(error, kernel, transpose_b=True)[0, 0]
            + tf.matmul(hidden, error, transpose_a=True)[0, 0]
        )

    return lambda i: float(step())


def solar_step(feature_dim, hidden_dim, num_buckets, batch_size, mixed_precision=False):
    import numpy as np
    import tensorflow as tf

    from solar_tf.config import SolarConfig
    from solar_tf.training.model import ChunkModel

    config = SolarConfig(
        feature_dim=feature_dim,
        hidden_dim=hidden_dim,
        num_buckets=num_buckets,
        batch_size=batch_size,
    )
    model = ChunkModel(config, feature_dim, chunk=0, mixed_precision=mixed_precision)
    model.compile_adam(1e-3)
    batches = []
    for seed in range(4):
        ids, buckets = batch_arrays(feature_dim, num_buckets, batch_size, seed)
        batches.append(
            {
                "ids": tf.constant(ids.ravel()),
                "values": tf.ones(ids.size),
                "row_splits": tf.constant(np.arange(batch_size + 1) * TOKENS, tf.int32),
                "buckets": tf.constant(buckets.ravel()),
                "bucket_splits": tf.constant(np.arange(batch_size + 1) * LABELS, tf.int32),
            }
        )
    arrays = {name: tf.stack([batch[name] for batch in batches]) for name in batches[0]}
    batches = iter(tf.data.Dataset.from_tensor_slices(arrays).repeat())
    model.make_train_function()  # what `fit` calls for every batch
    return lambda i: float(model.train_function(batches)["loss"])


def keras_step(feature_dim, hidden_dim, num_buckets, batch_size):
    """What one would write first: sparse Input, two Dense layers, Adam, BCE."""
    import keras
    import numpy as np
    import tensorflow as tf

    inputs = keras.Input((feature_dim,), sparse=True)
    hidden = keras.layers.Dense(hidden_dim, activation="relu")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(num_buckets)(hidden))
    model.compile(keras.optimizers.Adam(), keras.losses.BinaryCrossentropy(from_logits=True))
    batches = []
    for seed in range(2):
        ids, buckets = batch_arrays(feature_dim, num_buckets, batch_size, seed)
        rows = np.repeat(np.arange(batch_size), TOKENS)
        places = np.unique(np.stack([rows, ids.ravel()], 1), axis=0)
        sparse = tf.SparseTensor(
            places, np.ones(len(places), np.float32), (batch_size, feature_dim)
        )
        targets = np.zeros((batch_size, num_buckets), np.float32)
        np.put_along_axis(targets, buckets, 1, axis=1)
        batches.append((sparse, tf.constant(targets)))
    return lambda i: float(model.train_on_batch(*batches[i % 2]))


def serve(name, sizes):
    """A contender's process: time one step for every line on stdin."""
    steps = {
        "products": products_step,
        "solar": solar_step,
        "mixed": functools.partial(solar_step, mixed_precision=True),
        "keras": keras_step,
        "keras_onednn": keras_step,
    }
    step = steps[name](*sizes)
    step(0)
    print("ready", flush=True)
    for i, _ in enumerate(sys.stdin, 1):
        started = time.perf_counter()
        step(i)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps([time.perf_counter() - started, peak]), flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    sizes = SIZES[args.small]
    if args.serve:
        serve(args.serve, sizes)
        return
    on = machine()
    seconds, peaks = {}, {}
    others = ["solar", "keras", "keras_onednn"] + ["mixed"] * cpu_has_bfloat16()
    # Keras needs nearly all memory for itself, so the others cannot alternate with it.
    for group in (("products", other) for other in others):
        times = {name: [] for name in group}
        processes = {}
        for name in group:
            command = [sys.executable, __file__, "--serve", name] + ["--small"] * args.small
            env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2", ONEDNN: "1"}
            if name == "keras":
                del env[ONEDNN]
            processes[name] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
            )
            assert processes[name].stdout.readline() == "ready\n"
        for _ in range(args.rounds):
            for name, process in processes.items():
                process.stdin.write("\n")
                process.stdin.flush()
                spent, peaks[name] = json.loads(process.stdout.readline())
                times[name].append(spent)
        for process in processes.values():
            process.communicate()
        products = statistics.median(times["products"])
        seconds.setdefault("products", products)
        other = group[1]
        seconds[other] = statistics.median(times[other]) * seconds["products"] / products
    part = "training step, {} x {} x {}, batch {}".format(*sizes)
    tuned, peak = "plain Keras with oneDNN's products", peaks["solar"] / 1e9
    rows = [
        cost(
            part, "its three matrix products", seconds["solar"], seconds["products"], "s", most=1.25
        ),
        figure("its peak memory", peak, "GB", "at most 10 GB", peak <= 10),
        faster(part, "plain Keras", seconds["solar"], seconds["keras"], "s", least=1.7),
        figure("plain Keras' peak memory", peaks["keras"] / 1e9, "GB"),
        faster(part, tuned, seconds["solar"], seconds["keras_onednn"], "s"),
        # More than this no step with products in float32 can gain on it on this machine.
        cost(
            tuned,
            "the three matrix products",
            seconds["keras_onednn"],
            seconds["products"],
            "s",
        ),
    ]
    if "mixed" in seconds:
        mixed, spent = "the step with --mixed_precision", seconds["mixed"]
        rows.append(faster(mixed, "plain Keras", spent, seconds["keras"], "s", least=1.7))
        rows.append(faster(mixed, "without", spent, seconds["solar"], "s"))
    print_rows(rows)
    if not args.small:
        write_results("training", rows, on)


if __name__ == "__main__":
    main()
