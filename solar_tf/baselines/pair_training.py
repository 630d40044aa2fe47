"""The loop that trains models of titles: checkpoints, progress, batches made beside the step."""

import itertools
import math
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import tensorflow as tf

from solar_tf.baselines.interface import COMMAND, Parts
from solar_tf.errors import UserError
from solar_tf.run.files import read_arrays, write_arrays
from solar_tf.runtime.console import progress, say
from solar_tf.training.optimizer import adam, lazy_adam, make_moments

CHECK_EVERY = 50  # steps between looks at the loss; each look waits for the device
CHECKPOINT_SECONDS = 600.0


class PairModel:
    """Variables by name, and their Adam. A step moves only the word vectors that its batch uses.

    Subclasses define `batch`, the tensors of a batch by name; `words(batch)`, the ids of its
    words; `pool(batch, vectors)`, which takes the vectors of these; `loss(batch, pooled)`; and
    `spread_back(batch, gradient)`, which turns the gradient by what is pooled into that by the
    words' vectors. With TensorFlow's own gradient of `pool` a step takes 1.14 times as long.
    """

    batch = None

    def __init__(self, word_vectors, others, settings):
        self.settings = settings
        self.word_vectors = tf.Variable(word_vectors, name="word_vectors")
        self.others = {
            name: tf.Variable(value, name=name, dtype=tf.float32) for name, value in others.items()
        }
        self.moments = {name: make_moments(variable) for name, variable in self.variables().items()}
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.averages = {}  # variables that no gradient moves
        # Traced once: a batch of another size is no reason to trace again.
        signature = self.batch, tf.TensorSpec([], tf.float32)
        self.train_batch = tf.function(self._train_batch, input_signature=signature)

    def variables(self):
        return {"word_vectors": self.word_vectors, **self.others}

    def weights(self):
        """The variables as arrays."""
        return {name: variable.numpy() for name, variable in self.variables().items()}

    def state(self):
        """All that training needs to go on, by name."""
        state = self.variables() | self.averages | {"step": self.step}
        for name, (first, second) in self.moments.items():
            state |= {f"{name}.m": first, f"{name}.v": second}
        return state

    def _train_batch(self, batch, learning_rate):
        """One step of Adam; returns the loss before it."""
        words = self.words(batch)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            pooled = self.pool(batch, tf.gather(self.word_vectors, words))
            tape.watch([pooled, *self.others.values()])
            loss = self.loss(batch, pooled)
        gradient, *gradients = tape.gradient(loss, [pooled, *self.others.values()])
        self.step.assign_add(1)
        for (name, variable), own in zip(self.others.items(), gradients, strict=True):
            adam(variable, self.moments[name], self.step, own, learning_rate)
        # Each word's share of the gradient, summed over the words that are the same.
        ids, places = tf.unique(words)
        rows = self.spread_back(batch, gradient)
        total = tf.math.unsorted_segment_sum(rows, places, tf.size(ids))
        moments = self.moments["word_vectors"]
        lazy_adam(self.word_vectors, moments, self.step, ids, total, learning_rate)
        return loss


def train(model, pairs, make_batch, folder):
    """Train for the epochs of the settings; goes on from the checkpoint in `folder`.

    `make_batch(rows, labels, negatives)` is called in a thread of its own.
    """
    settings, checkpoint = model.settings, Path(folder) / "checkpoint.npz"
    clock, total = Parts(folder), pairs.steps * settings.epochs
    losses = _resume(model, checkpoint)
    start = int(model.step.numpy())
    saved = time.perf_counter()
    with progress(total, "training", "step", start) as bar, ThreadPoolExecutor(1) as thread:
        batches = _batches(pairs, make_batch, range(start, total), thread)
        pending = []
        for number, batch in enumerate(batches, start):
            epoch, step = divmod(number, pairs.steps)
            share = number / total if settings.decay == "linear" else 0
            rate = settings.learning_rate * (1 - share)
            pending.append(model.train_batch(batch, tf.constant(rate, tf.float32)))
            bar.update()
            ended = step + 1 == pairs.steps
            if len(pending) < CHECK_EVERY and not ended:
                continue
            losses += [float(loss) for loss in pending]
            pending.clear()
            _require_finite(losses[-1], epoch)
            bar.set_postfix_str(f"loss {np.mean(losses[-CHECK_EVERY:]):.4f}")
            if ended:
                say(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}")
                losses = []
            if ended or time.perf_counter() - saved > CHECKPOINT_SECONDS:
                _save(model, checkpoint, losses)
                clock.tick()
                saved = time.perf_counter()


def _batches(pairs, make_batch, numbers, thread):
    """The batches of the steps with these numbers; the next two are made in the thread."""
    orders = {}

    def make(number):
        epoch, step = divmod(number, pairs.steps)
        if epoch not in orders:
            orders.clear()
            orders[epoch] = pairs.order(epoch)
        arrays = make_batch(*pairs.batch(orders[epoch], epoch, step))
        return {name: tf.constant(array) for name, array in arrays.items()}

    futures = (thread.submit(make, number) for number in numbers)
    waiting = list(itertools.islice(futures, 2))
    while waiting:
        batch = waiting.pop(0).result()
        waiting += itertools.islice(futures, 1)
        yield batch


def _require_finite(loss, epoch):
    if not math.isfinite(loss):
        raise UserError(
            f"epoch {epoch + 1}: the loss is {loss}: the last checkpoint is kept; use a smaller "
            "--learning_rate and another --save_as"
        )


def _save(model, path, losses):
    """One array at a time: all of them are three times the model."""

    def arrays():
        yield "losses", np.array(losses, np.float64)
        for name, variable in model.state().items():
            yield name, variable.numpy()

    write_arrays(path, arrays())


def _resume(model, path):
    """Take up the checkpoint, if there is one; returns the losses of the unfinished epoch."""
    if not path.exists():
        return []
    arrays = read_arrays(path, COMMAND)
    for name, variable in model.state().items():
        variable.assign(arrays[name])
    say(f"goes on after step {int(model.step.numpy()):,}")
    return arrays["losses"].tolist()
