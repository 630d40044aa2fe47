"""The memory of a trainer, and how many trainers fit."""

import os

from solar_tf.run.weights import count_parameters
from solar_tf.runtime.memory import available_memory

TRAINER_BYTES = 1.15e9  # of TensorFlow and Python with traced steps; half of it is shared


def training_bytes(config, input_dim, tokens=9.0):
    """Memory of a trainer of one chunk; `tokens` is the mean number of tokens of a row."""
    wide = config.batch_size * config.num_buckets  # logits, probabilities, error and scratch
    gathered = config.batch_size * tokens * config.hidden_dim
    output = config.hidden_dim * config.num_buckets  # the dense gradient of the output layer
    floats = 3 * count_parameters(config, input_dim) + output + 4 * wide + 6 * gathered
    return TRAINER_BYTES + 4 * floats


def choose_trainers(config, input_dim, num_chunks):
    """How many trainers of one chunk the CPU has cores, memory and chunks for."""
    fit = int(0.9 * available_memory() // training_bytes(config, input_dim))
    return max(1, min(os.cpu_count(), num_chunks, fit))
