"""Train one chunk (§3.2): Keras' `fit` with callbacks, from the last checkpoint on."""

import dataclasses
import importlib.util
import math
import time
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf

from solar_tf.errors import UserError
from solar_tf.run.files import atomic_folder, write_json
from solar_tf.run.index import open_index
from solar_tf.run.weights import NAMES, not_finite, save_weights
from solar_tf.runtime.console import progress, say, seconds
from solar_tf.runtime.devices import cpu_has_bfloat16
from solar_tf.training.batches import damage_explained, read_batches
from solar_tf.training.checkpoints import Checkpoints, Rows
from solar_tf.training.initial import log_odds, start_input_layer
from solar_tf.training.model import ChunkModel, inputs_of
from solar_tf.training.optimizer import LinearDecay


@dataclass
class Place:
    """How far the training is; part of every checkpoint."""

    epoch: int = 0
    batch: int = 0  # number of this epoch's batches that are done
    loss_sum: float = 0.0  # over these batches
    epoch_seconds: float = 0.0  # spent on these batches
    history: list = field(default_factory=list)  # the epochs before


class ChunkTrainer:
    """One chunk's model, its place in the training, and its checkpoints."""

    def __init__(
        self,
        run,
        chunk,
        checkpoint_minutes=10.0,
        tensorboard=False,
        mixed_precision=False,
        callbacks=(),  # Keras callbacks of the user
        line=0,  # where the progress bar is shown
    ):
        self.run, self.chunk, self.line, config = run, chunk, line, run.config
        self.checkpoints = Checkpoints(run.paths, chunk, 60 * checkpoint_minutes)
        gpus = tf.config.list_physical_devices("GPU")
        self.device = "GPU" if gpus else "CPU"
        if mixed_precision and not (gpus or cpu_has_bfloat16()):
            say(f"chunk {chunk}: no --mixed_precision, which this CPU is slow at or crashes at")
            mixed_precision = False
        self.rows = run.summary["train"]["rows"]
        self.steps_per_epoch = math.ceil(self.rows / config.batch_size)
        total_steps = self.steps_per_epoch * config.epochs
        self.model = ChunkModel(config, run.input_dim, chunk, mixed_precision=mixed_precision)
        linear = config.decay == "linear"
        rate = LinearDecay(config.learning_rate, total_steps) if linear else config.learning_rate
        self.model.compile_adam(rate)
        self.sources = run.sources("train", chunk)
        self.place = Place()
        self.epoch = tf.Variable(0, dtype=tf.int64, trainable=False)  # the one being read
        self.callbacks = [*callbacks]
        if tensorboard:
            if importlib.util.find_spec("tensorboard") is None:
                raise UserError(
                    "--tensorboard needs TensorBoard: pip install solar-tf[tensorboard]"
                )
            folder = str(run.paths.tensorboard(chunk))
            self.callbacks.append(keras.callbacks.TensorBoard(folder, write_graph=False))
        if not self._resume():
            if config.bias_start == "log_odds":
                self._start_bias()
            if config.input_start == "gradient":
                self._start_input()

    def train(self):
        """Train to the end, or until a callback stops it, and save the chunk."""
        config, place, size = self.run.config, self.place, self.run.config.batch_size
        done = place.epoch * self.steps_per_epoch + place.batch
        total = config.epochs * self.steps_per_epoch
        with (
            progress(size * total, f"chunk {self.chunk}", "row", size * done, self.line) as bar,
            damage_explained(**self.sources),
        ):
            callbacks = [
                TrackPlace(self),
                SaveCheckpoints(self),
                ShowProgress(bar, size),
                *self.callbacks,
            ]
            self.model.stop_training = False
            while place.epoch < config.epochs and not self.model.stop_training:
                # The rest of an interrupted epoch has fewer batches: it gets its own `fit`.
                self.model.fit(
                    self._batches(self.epoch, place.batch),
                    initial_epoch=place.epoch,
                    epochs=place.epoch + 1 if place.batch else config.epochs,
                    callbacks=callbacks,
                    shuffle=False,
                    verbose=0,
                )
        self._finish()

    def _batches(self, epoch, skip=0):
        """The batches of an epoch from number `skip` on."""
        config = self.run.config
        order = {"seed": config.seed * 1000 + self.chunk, "epoch": epoch, "skip": skip}
        order |= {"batch_size": config.batch_size, "num_epochs": config.epochs}
        return read_batches(**self.sources, **order)

    def stop(self, what):
        """Raise UserError; it names the last steps' inputs if these are not finite."""
        epoch, last = divmod(self.model.optimizer.iterations.numpy() - 1, self.steps_per_epoch)
        first = max(0, last + 1 - self.model.steps_per_execution)
        number, remedy = last, "use a smaller learning_rate"
        suspects = self._batches(epoch, first).take(last + 1 - first)
        for batch, inputs in enumerate(suspects, first):
            arrays = {name: tensor.numpy() for name, tensor in inputs_of(inputs).items()}
            if bad := not_finite(arrays):
                number = batch
                what += f", as {' and '.join(bad)} of its inputs hold NaN or Inf"
                remedy = f"delete {self.sources['paths'][0].parent} and run preprocess.py again"
                break
        raise UserError(
            f"chunk {self.chunk}, epoch {epoch}, batch {number}: {what}: "
            f"the last checkpoint is kept; {remedy}"
        )

    def _finite(self, variables):
        """The variables as arrays to save; UserError if they hold NaN, which nobody can resume."""
        arrays = {name: Rows(variable) for name, variable in variables.items()}
        if bad := not_finite(arrays):
            self.stop(f"after it {' and '.join(bad)} hold NaN or Inf")
        return arrays

    # Initial weights and checkpoints.

    def _start_bias(self):
        self.run.fetch(self.run.paths.index(self.chunk))
        counts = np.load(self.run.paths.label_counts, allow_pickle=False)
        buckets = open_index(self.run, self.chunk).label_buckets()
        start = log_odds(buckets, counts, self.rows, self.run.config.num_buckets)
        self.model.weights_by_name()["output_bias"].assign(start)

    def _start_input(self):
        """One pass over the rows; its time counts for the first epoch."""
        began, size = time.perf_counter(), self.run.config.batch_size
        with (
            progress(self.rows, f"chunk {self.chunk}: start", "row", line=self.line) as bar,
            damage_explained(**self.sources),
        ):

            def told():
                for batch in read_batches(**self.sources, batch_size=size):
                    yield batch
                    bar.update(size)

            start_input_layer(self.model, told())
        self.place.epoch_seconds = time.perf_counter() - began

    def save_checkpoint(self):
        step = int(self.model.optimizer.iterations.numpy())
        arrays = self._finite(self.model.state())
        self.checkpoints.save(step, arrays, dataclasses.asdict(self.place))

    def _resume(self):
        """Load the newest checkpoint; returns whether there was one."""
        facts = self.checkpoints.resume(self.model.state())
        if facts is None:
            return False
        self.model.optimizer.iterations.assign(facts["step"])
        self.place = Place(**{each.name: facts[each.name] for each in dataclasses.fields(Place)})
        say(f"chunk {self.chunk}: goes on at epoch {self.place.epoch}, batch {self.place.batch}")
        return True

    def _finish(self):
        """Save the trained chunk; it exists only when it is complete."""
        paths, history = self.run.paths, self.place.history
        with atomic_folder(paths.chunk(self.chunk)) as folder:
            facts = {
                "chunk": self.chunk,
                "seed": self.run.seeds[self.chunk],
                "seconds": round(sum(epoch["seconds"] for epoch in history), 3),
                "device": self.device,
                "products": self.model.product_type.name,
                "tensorflow": tf.__version__,
            }
            write_json(folder / "history.json", history)
            weights = self.model.weights_by_name()
            save_weights(folder, self._finite({name: weights[name] for name in NAMES}), facts)
        paths.publish(paths.chunk(self.chunk))
        paths.drop(paths.training(self.chunk))
        say(
            f"chunk {self.chunk}: loss {history[0]['loss']:.3f} -> "
            f"{history[-1]['loss']:.3f} in {seconds(facts['seconds'])}"
        )


class TrackPlace(keras.callbacks.Callback):
    """Keeps a trainer's place and history, and stops it when the loss is not finite."""

    def __init__(self, trainer):
        super().__init__()
        self.trainer, self.place = trainer, trainer.place

    def on_epoch_begin(self, epoch, logs=None):
        self.trainer.epoch.assign(epoch)
        self.resumed = self.place.batch
        # Keras has just reset the mean loss, but a resumed epoch has done some batches.
        self.model.loss_tracker.total.assign(self.place.loss_sum)
        self.model.loss_tracker.count.assign(self.place.batch)

    def on_train_batch_begin(self, batch, logs=None):
        self.began = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        place = self.place
        place.epoch_seconds += time.perf_counter() - self.began
        place.batch = min(self.resumed + batch + 1, self.trainer.steps_per_epoch)
        place.loss_sum = logs["loss"] * place.batch
        if not math.isfinite(logs["loss"]):
            self.trainer.stop(f"the loss is {logs['loss']}")

    def on_epoch_end(self, epoch, logs=None):
        trainer, place = self.trainer, self.place
        if place.batch != trainer.steps_per_epoch:
            raise UserError(
                f"{trainer.run.paths.location}: the records of chunk {trainer.chunk} hold other "
                "rows than the summary says: delete its records folder and run preprocess.py again"
            )
        rate = round(trainer.rows / place.epoch_seconds, 1)
        logs["rows_per_second"] = rate  # for later callbacks, such as TensorBoard's
        place.history.append(
            {
                "epoch": epoch,
                "loss": logs["loss"],
                "seconds": round(place.epoch_seconds, 3),
                "rows_per_second": rate,
            }
        )
        place.epoch, place.batch = epoch + 1, 0
        place.loss_sum = place.epoch_seconds = 0.0


class SaveCheckpoints(keras.callbacks.Callback):
    """Saves a checkpoint when one is due, or worthwhile at the end of an epoch."""

    def __init__(self, trainer):
        super().__init__()
        self.trainer = trainer

    def on_train_batch_end(self, batch, logs=None):
        unfinished = self.trainer.place.batch < self.trainer.steps_per_epoch
        if unfinished and self.trainer.checkpoints.due():
            self.trainer.save_checkpoint()

    def on_epoch_end(self, epoch, logs=None):
        last = epoch + 1 == self.trainer.run.config.epochs
        if not last and self.trainer.checkpoints.worthwhile():
            self.trainer.save_checkpoint()


class ShowProgress(keras.callbacks.Callback):
    """Moves a progress bar that counts rows."""

    def __init__(self, bar, batch_size):
        super().__init__()
        self.bar, self.batch_size = bar, batch_size

    def on_train_batch_end(self, batch, logs=None):
        self.bar.update(self.batch_size * self.model.steps_per_execution)

    def on_epoch_end(self, epoch, logs=None):
        self.bar.set_postfix_str(f"loss {logs['loss']:.3f}")
