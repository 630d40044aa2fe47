"""Stage 2 (§3.2): train the chunks, each for itself.

Any number of trainers may work on a run: each takes the next chunk that nobody holds.
A trainer that is killed loses at most the work since its last checkpoint; the resumed
chunk ends with the same weights as an unbroken one.
"""

import collections
import dataclasses
import functools
import importlib.util
import json
import math
import time

import numpy as np
import tensorflow as tf

from solar_tf.errors import UserError
from solar_tf.run.directory import atomic_folder, claim, open_run, sweep, write_json
from solar_tf.run.index import open_index
from solar_tf.run.weights import NAMES, not_finite, save_weights
from solar_tf.runtime.console import progress, say, seconds, table
from solar_tf.runtime.devices import cpu_has_bfloat16, load_tensorflow
from solar_tf.runtime.workers import run_tasks
from solar_tf.training.batches import read_batches
from solar_tf.training.checkpoints import Checkpoints
from solar_tf.training.initial import log_odds, start_input_layer
from solar_tf.training.model import ChunkModel, Rows, inputs_of
from solar_tf.training.sizes import choose_trainers, training_bytes

HELD_PAUSE = 1.0  # seconds between tries for chunks that others hold
CHECK_EVERY = 50  # steps between looks at the loss, each of which waits for the device
PLACE = ("epoch", "batch", "loss_sum", "epoch_seconds", "history")  # of a trainer in its work


def train(root, chunks=None, trainers=1, wait=0.0, **options):
    """Train the chunks of a run that nobody else trains; `chunks` limits which.

    Several trainers are processes of one thread each, with a chunk of their own. On a CPU
    that beats one trainer with many threads, since half of a step's operations use but one;
    None stands for as many as it has cores and memory for. A `distributed.Cluster` has its
    trainers elsewhere. Chunks that others hold are left to them, or waited for: the holder may
    be a machine that was lost, whose claims take some time to go. `options` are ChunkTrainer's.
    """
    run = open_run(root, stage=True)
    wanted = list(range(run.config.num_chunks)) if chunks is None else chunks
    for chunk in wanted:
        if not 0 <= chunk < run.config.num_chunks:
            raise UserError(
                f"--chunks {chunk}: this run has chunks 0 to {run.config.num_chunks - 1}"
            )
    trainers = trainers or choose_trainers(run.config, run.input_dim, len(wanted))
    if isinstance(trainers, int):
        start = (load_tensorflow, (1,)) if trainers > 1 else ()
        lines = trainers
    else:
        memory = training_bytes(run.config, run.input_dim)
        trainers = dataclasses.replace(trainers, memory=memory)
        start, lines = (load_tensorflow, (trainers.threads,)), 1
    job = functools.partial(_train_chunk, run, lines=lines, **options)
    for chunk in wanted:
        _clear_remains(run, chunk)
    trained, deadline = [], time.monotonic() + wait
    while True:  # a chunk that another trainer held may be free in the next round
        missing = [chunk for chunk in wanted if not run.paths.has(run.paths.chunk(chunk))]
        results = run_tasks(job, missing, trainers, *start, patience=math.inf)
        done = [chunk for chunk in results if chunk is not None]
        trained += done
        if done:
            deadline = time.monotonic() + wait
        elif not missing or time.monotonic() >= deadline:
            break
        else:
            time.sleep(HELD_PAUSE)
    _report(run, wanted, trained)
    if missing and wait:
        raise UserError(
            f"{root}: another trainer holds {len(missing)} of these chunks: run it again later"
        )


def _clear_remains(run, chunk):
    """Delete the checkpoints that a trainer left when it was killed right after it had finished."""
    training = run.paths.training(chunk)
    remains = [*training.parent.glob(f"{training.name}*"), *run.paths.stored(training)]
    if remains and run.paths.has(run.paths.chunk(chunk)):
        with claim(run.paths.chunk_claim(chunk)) as free:
            if free:
                sweep(training)
                run.paths.drop(training)


def _train_chunk(run, chunk, lines, **options):
    """Train one chunk, unless it is complete or claimed; returns it if it was trained."""
    with claim(run.paths.chunk_claim(chunk)) as free:
        if not free or run.paths.has(run.paths.chunk(chunk)):
            return None
        sweep(run.paths.chunk(chunk), run.paths.training(chunk))
        ChunkTrainer(run, chunk, line=chunk % lines, **options).train()
        return chunk


class ChunkTrainer:
    """One chunk's model, its place in the training, and its checkpoints."""

    def __init__(
        self,
        run,
        chunk,
        checkpoint_minutes=10.0,
        tensorboard=False,
        mixed_precision=False,
        line=0,  # of the progress bar
    ):
        self.run, self.chunk, self.line = run, chunk, line
        self.checkpoints = Checkpoints(run.paths, chunk, 60 * checkpoint_minutes)
        gpus = tf.config.list_physical_devices("GPU")
        self.device = "GPU" if gpus else "CPU"
        if mixed_precision and not (gpus or cpu_has_bfloat16()):
            say(f"chunk {chunk}: no --mixed_precision, which this CPU is slow at or crashes at")
            mixed_precision = False
        self.model = ChunkModel(
            run.config,
            run.input_dim,
            chunk,
            dense=run.dataset["kind"] == "dense",
            mixed_precision=mixed_precision,
        )
        self.model.make_moments()
        self.sources = run.sources("train", chunk)
        self.rows = run.summary["train"]["rows"]
        self.steps_per_epoch = math.ceil(self.rows / run.config.batch_size)
        self.total_steps = self.steps_per_epoch * run.config.epochs
        self.epoch = self.batch = 0
        self.loss_sum = self.epoch_seconds = 0.0
        self.history = []
        self.writer = None
        if tensorboard:
            if importlib.util.find_spec("tensorboard") is None:
                raise UserError(
                    "--tensorboard needs TensorBoard: pip install solar-tf[tensorboard]"
                )
            self.writer = tf.summary.create_file_writer(str(run.paths.tensorboard(chunk)))
        if not self._resume():
            if run.config.bias_start == "log_odds":
                self._start_bias()
            if run.config.input_start == "gradient":
                self._start_input()

    def train(self):
        size = self.run.config.batch_size
        done = size * self.model.step.numpy()
        with progress(
            size * self.total_steps, f"chunk {self.chunk}", "row", done, self.line
        ) as bar:
            while self.epoch < self.run.config.epochs:
                self._train_epoch(self._batches(self.epoch, self.batch), bar)
        self._finish()

    def _batches(self, epoch, skip):
        """An epoch's batches from number `skip` on."""
        return read_batches(
            **self.sources,
            batch_size=self.run.config.batch_size,
            seed=self.run.config.seed * 1000 + self.chunk,
            epoch=epoch,
            skip=skip,
        )

    def _train_epoch(self, batches, bar):
        losses = collections.deque()
        last_look = time.perf_counter()
        for batch in batches:
            losses.append(self.model.train_batch(batch, self._learning_rate()))
            self.batch += 1
            bar.update(self.run.config.batch_size)
            if len(losses) < CHECK_EVERY and self.batch < self.steps_per_epoch:
                continue
            self._add_losses(losses)
            now = time.perf_counter()
            self.epoch_seconds += now - last_look
            last_look = now
            bar.set_postfix_str(f"loss {self.loss_sum / self.batch:.3f}")
            if self.checkpoints.due() and self.batch < self.steps_per_epoch:
                self._save_checkpoint()
                last_look = time.perf_counter()
        if self.batch != self.steps_per_epoch:
            raise UserError(
                f"{self.run.paths.location}: the records of chunk {self.chunk} hold other rows "
                "than the summary says: delete its records folder and run preprocess.py again"
            )
        self._end_epoch()

    def _learning_rate(self):
        rate = self.run.config.learning_rate
        if self.run.config.decay == "linear":
            rate *= 1 - (self.epoch * self.steps_per_epoch + self.batch) / self.total_steps
        return tf.constant(rate, tf.float32)

    def _add_losses(self, losses):
        """Take the pending losses of the last steps; the first bad one ends the training."""
        while losses:
            loss = float(losses.popleft())
            if not math.isfinite(loss):
                self._stop(len(losses), f"the loss is {loss}")
            self.loss_sum += loss

    def _stop(self, steps_ago, what):
        """End the training, and blame the inputs of the step's batch if it is their fault."""
        step = int(self.model.step.numpy()) - steps_ago - 1
        epoch, batch = divmod(step, self.steps_per_epoch)
        remedy = "use a smaller learning_rate"
        inputs = inputs_of(next(iter(self._batches(epoch, batch))))
        if bad := not_finite({name: tensor.numpy() for name, tensor in inputs.items()}):
            what += f", as {' and '.join(bad)} of its inputs hold NaN or Inf"
            remedy = f"delete {self.sources['paths'][0].parent} and run preprocess.py again"
        raise UserError(
            f"chunk {self.chunk}, epoch {epoch}, batch {batch}: {what}: "
            f"the last checkpoint is kept; {remedy}"
        )

    def _finite(self, weights):
        """The weights, if they may be saved: a checkpoint with NaN in it would be of no use."""
        if bad := not_finite(weights):
            self._stop(0, f"after it {' and '.join(bad)} hold NaN or Inf")
        return weights

    def _end_epoch(self):
        loss = self.loss_sum / self.batch
        self.history.append(
            {
                "epoch": self.epoch,
                "loss": loss,
                "seconds": round(self.epoch_seconds, 3),
                "rows_per_second": round(self.rows / self.epoch_seconds, 1),
            }
        )
        if self.writer:
            with self.writer.as_default(step=self.epoch):
                tf.summary.scalar("loss", loss)
                tf.summary.scalar("rows_per_second", self.history[-1]["rows_per_second"])
            self.writer.flush()
        self.epoch, self.batch = self.epoch + 1, 0
        self.loss_sum = self.epoch_seconds = 0.0
        if self.epoch < self.run.config.epochs and self.checkpoints.worthwhile():
            self._save_checkpoint()

    def _start_bias(self):
        self.run.fetch(self.run.paths.label_counts)
        counts = np.load(self.run.paths.label_counts, allow_pickle=False)
        self.run.fetch(self.run.paths.index(self.chunk))
        buckets = open_index(self.run, self.chunk).label_buckets()
        start = log_odds(buckets, counts, self.rows, self.run.config.num_buckets)
        self.model.output_bias.assign(start)

    def _start_input(self):
        """One pass over the rows, whose time is part of the first epoch's."""
        began = time.perf_counter()
        batches = read_batches(**self.sources, batch_size=self.run.config.batch_size)
        with progress(self.rows, f"chunk {self.chunk}: start", "row", line=self.line) as bar:

            def told():
                for batch in batches:
                    yield batch
                    bar.update(self.run.config.batch_size)

            start_input_layer(self.model, told())
        self.epoch_seconds = time.perf_counter() - began

    def _save_checkpoint(self):
        arrays = {name: Rows(variable) for name, variable in self.model.state().items()}
        facts = {name: getattr(self, name) for name in PLACE}
        self.checkpoints.save(int(self.model.step.numpy()), self._finite(arrays), facts)

    def _resume(self):
        """Take up the newest checkpoint; returns whether there was one."""
        facts = self.checkpoints.resume(self.model.state())
        if facts is None:
            return False
        self.model.step.assign(facts["step"])
        for name in PLACE:
            setattr(self, name, facts[name])
        say(f"chunk {self.chunk}: goes on at epoch {self.epoch}, batch {self.batch}")
        return True

    def _finish(self):
        """Rename the trained chunk into place: only now does it exist."""
        with atomic_folder(self.run.paths.chunk(self.chunk)) as folder:
            weights = {name: Rows(self.model.state()[name]) for name in NAMES}
            facts = {
                "chunk": self.chunk,
                "seed": self.run.seeds[self.chunk],
                "seconds": round(sum(epoch["seconds"] for epoch in self.history), 3),
                "device": self.device,
                "products": self.model.matmul_type.name,
                "tensorflow": tf.__version__,
            }
            write_json(folder / "history.json", self.history)
            save_weights(folder, self._finite(weights), facts)
        self.run.paths.publish(self.run.paths.chunk(self.chunk))
        self.run.paths.drop(self.run.paths.training(self.chunk))
        say(
            f"chunk {self.chunk}: loss {self.history[0]['loss']:.3f} -> "
            f"{self.history[-1]['loss']:.3f} in {seconds(facts['seconds'])}"
        )


def _report(run, wanted, trained):
    rows = []
    for chunk in wanted:
        history = run.paths.facts(run.paths.chunk(chunk)) / "history.json"
        if not history.exists():
            rows.append((chunk, "held by another trainer", "-", "-", "-"))
            continue
        epochs = json.loads(history.read_text())
        spent = sum(epoch["seconds"] for epoch in epochs)
        rate = run.summary["train"]["rows"] * len(epochs) / max(spent, 1e-9)
        state = "trained" if chunk in trained else "complete already"
        rows.append((chunk, state, f"{epochs[-1]['loss']:.3f}", f"{spent:.1f}", f"{rate:.0f}"))
    say(table(("chunk", run.paths.location, "loss", "seconds", "rows/s"), rows))
    missing = run.config.num_chunks - len(run.trained_chunks())
    if missing:
        say(f"\n{missing} of {run.config.num_chunks} chunks are not complete yet.")
    else:
        say(f"\nNext: infer.py --run {run.paths.location}")
