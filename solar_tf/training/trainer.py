"""The training of one chunk (§3.2): Keras' `fit` with callbacks, from the last checkpoint on."""

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
    """Where a training stands; part of every checkpoint."""

    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done
    loss_sum: float = 0.0  # of these batches
    epoch_seconds: float = 0.0  # that they took
    history: list = field(default_factory=list)  # of the epochs before


class ChunkTrainer:
    """One chunk's model, its place in the training, and its checkpoints."""

    def __init__(
        self,
        run,
        chunk,
        checkpoint_minutes=10.0,
        tensorboard=False,
        mixed_precision=False,
        callbacks=(),  # Keras callbacks of the user's own
        line=0,  # of the progress bar
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
        dense = run.dataset["kind"] == "dense"
        self.model = ChunkModel(
            config, run.input_dim, chunk, dense=dense, mixed_precision=mixed_precision
        )
        linear = config.decay == "linear"
        rate = LinearDecay(config.learning_rate, total_steps) if linear else config.learning_rate
        self.model.compile_adam(rate)
        self.sources = run.sources("train", chunk)
        self.place = Place()
        self.epoch = tf.Variable(0, dtype=tf.int64, trainable=False)  # that batches are read of
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
        config, place = self.run.config, self.place
        done = place.epoch * self.steps_per_epoch + place.batch
        total = config.epochs * self.steps_per_epoch
        size = config.batch_size
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
                # The rest of an epoch that was interrupted has fewer batches than the others.
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
        order = {"seed": config.seed * 1000 + self.chunk, "num_epochs": config.epochs}
        size = config.batch_size
        return read_batches(**self.sources, batch_size=size, epoch=epoch, skip=skip, **order)

    def stop(self, what):
        """End the training; blame the inputs of the last steps' batches if it is their fault."""
        epoch, last = divmod(self.model.optimizer.iterations.numpy() - 1, self.steps_per_epoch)
        first = max(0, last + 1 - self.model.steps_per_execution)
        batch, remedy = last, "use a smaller learning_rate"
        for number, inputs in zip(
            range(first, last + 1), self._batches(epoch, first), strict=False
        ):
            arrays = {name: tensor.numpy() for name, tensor in inputs_of(inputs).items()}
            if bad := not_finite(arrays):
                batch, what = (
                    number,
                    f"{what}, as {' and '.join(bad)} of its inputs hold NaN or Inf",
                )
                remedy = f"delete {self.sources['paths'][0].parent} and run preprocess.py again"
                break
        raise UserError(
            f"chunk {self.chunk}, epoch {epoch}, batch {batch}: {what}: "
            f"the last checkpoint is kept; {remedy}"
        )

    def _finite(self, variables):
        """The variables as arrays, if they may be saved: a checkpoint with NaN is of no use."""
        arrays = {name: Rows(variable) for name, variable in variables.items()}
        if bad := not_finite(arrays):
            self.stop(f"after it {' and '.join(bad)} hold NaN or Inf")
        return arrays

    # The start.

    def _start_bias(self):
        counts_path, index_path = self.run.paths.label_counts, self.run.paths.index(self.chunk)
        self.run.fetch(counts_path, index_path)
        counts = np.load(counts_path, allow_pickle=False)
        buckets = open_index(self.run, self.chunk).label_buckets()
        start = log_odds(buckets, counts, self.rows, self.run.config.num_buckets)
        self.model.weights_by_name()["output_bias"].assign(start)

    def _start_input(self):
        """One pass over the rows, whose time is part of the first epoch's."""
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

    # The state.

    def save_checkpoint(self):
        step = int(self.model.optimizer.iterations.numpy())
        self.checkpoints.save(
            step, self._finite(self.model.state()), dataclasses.asdict(self.place)
        )

    def _resume(self):
        """Take up the newest checkpoint; returns whether there was one."""
        facts = self.checkpoints.resume(self.model.state())
        if facts is None:
            return False
        self.model.optimizer.iterations.assign(facts["step"])
        names = [each.name for each in dataclasses.fields(Place)]
        self.place = Place(**{name: facts[name] for name in names})
        where = f"epoch {self.place.epoch}, batch {self.place.batch}"
        say(f"chunk {self.chunk}: goes on at {where}")
        return True

    def _finish(self):
        """Rename the trained chunk into place: only now does it exist."""
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
    """Keeps a trainer's place and history, and ends the training at a loss that is no number."""

    def __init__(self, trainer):
        super().__init__()
        self.trainer, self.place = trainer, trainer.place

    def on_epoch_begin(self, epoch, logs=None):
        self.trainer.epoch.assign(epoch)
        self.resumed = self.place.batch
        # Keras has just reset the mean loss, of which a resumed epoch has a part already.
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
        logs["rows_per_second"] = rate  # for callbacks after this one, such as TensorBoard's
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
    """Saves a checkpoint when one is due, and at the end of epochs where it is worthwhile."""

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
