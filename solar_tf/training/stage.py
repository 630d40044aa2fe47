"""Stage 2 (§3.2): train the chunks, independently of each other.

Any number of trainers may work on a run: each takes the next chunk that nobody holds. A trainer
that is killed loses at most the work since its last checkpoint, and the resumed chunk ends with
the weights of an unbroken one.
"""

import dataclasses
import functools
import json
import math
import time

from solar_tf.errors import UserError
from solar_tf.run.directory import open_run
from solar_tf.run.files import sweep
from solar_tf.run.locks import try_lock
from solar_tf.runtime.console import say, table
from solar_tf.runtime.devices import load_tensorflow
from solar_tf.runtime.workers import run_tasks
from solar_tf.training.sizes import choose_trainers, training_bytes
from solar_tf.training.trainer import ChunkTrainer

HELD_PAUSE = 1.0  # seconds between attempts at chunks that others hold


def train(root, chunks=None, trainers=1, wait=0.0, **options):
    """Train the chunks of a run that nobody else trains; `chunks` limits which.

    Several trainers are processes of one thread each, with a chunk of their own. On a CPU that is
    faster than one trainer with many threads, since half of a step's operations use one thread.
    None means as many as cores and memory allow; a `distributed.Cluster` has its trainers on other
    machines. Chunks that others hold are left to them, or tried again for `wait` seconds: the
    locks of a lost machine take some time to expire. `options` are ChunkTrainer's.
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
    while True:  # a chunk that another trainer holds may be free in the next round
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
    """Delete the checkpoints of a trainer that was killed right after it had finished."""
    training = run.paths.training(chunk)
    remains = [*training.parent.glob(f"{training.name}*"), *run.paths.stored(training)]
    if remains and run.paths.has(run.paths.chunk(chunk)):
        with try_lock(run.paths.chunk_lock(chunk)) as free:
            if free:
                sweep(training)
                run.paths.drop(training)


def _train_chunk(run, chunk, lines, **options):
    """Train one chunk, unless it is complete or locked; returns it if it was trained."""
    with try_lock(run.paths.chunk_lock(chunk)) as free:
        if not free or run.paths.has(run.paths.chunk(chunk)):
            return None
        sweep(run.paths.chunk(chunk), run.paths.training(chunk))
        ChunkTrainer(run, chunk, line=chunk % lines, **options).train()
        return chunk


def _report(run, wanted, trained):
    rows = []
    for chunk in wanted:
        history = run.paths.small_files(run.paths.chunk(chunk)) / "history.json"
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
