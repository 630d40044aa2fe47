"""Stage 2: learning, sharing, being killed."""

import contextlib
import gc
import json
import re
import signal
import threading
import time

import numpy as np
import pytest
from conftest import copy_run, open_titles, run_python, small_config, stage, start_stage

from solar_tf.errors import UserError
from solar_tf.preprocessing.stage import preprocess
from solar_tf.run.locks import try_lock
from solar_tf.run.records import BUCKETS, IDS, VALUES, write_records
from solar_tf.run.weights import read_state
from solar_tf.runtime.devices import cpu_has_bfloat16
from solar_tf.training.model import ChunkModel
from solar_tf.training.sizes import training_bytes
from solar_tf.training.stage import train
from solar_tf.training.trainer import ChunkTrainer


@pytest.fixture
def run(preprocessed, tmp_path):
    """A run after stage 1, in the test's own folder."""
    return copy_run(preprocessed, tmp_path)


def assert_same_weights(left, right, chunks):
    for chunk in chunks:
        ours, theirs = (
            {path.name: np.load(path) for path in run.paths.chunk(chunk).glob("*.npy")}
            for run in (left, right)
        )
        assert len(ours) == 4
        np.testing.assert_equal(ours, theirs)


def losses_of(run, chunk):
    history = json.loads((run.paths.chunk(chunk) / "history.json").read_text())
    return [epoch["loss"] for epoch in history]


def preprocessed_run(folder, titles, **changes):
    return preprocess(folder, open_titles(titles), small_config(**changes), 1)


def test_the_loss_falls_in_every_chunk_and_history_says_so(trained):
    for chunk in range(3):
        losses = losses_of(trained, chunk)
        assert len(losses) == 6
        assert losses[-1] < losses[0] / 3
    assert not list(trained.paths.chunks.glob("*.training"))


WIDE = """
import os, sys
from solar_tf.runtime import devices, memory

devices.load_tensorflow(1)
from solar_tf.training.stage import train

train(sys.argv[1])
print("peak", memory.kernel_count(os.getpid(), "status", "VmHWM"))
"""


def test_a_trainer_takes_the_memory_that_is_foreseen(titles, tmp_path):
    """Also at the start along the gradient, for a checkpoint, and for one chunk after another."""
    sizes = {"feature_dim": 400_000, "hidden_dim": 128, "epochs": 2}
    run = preprocessed_run(tmp_path, titles, **sizes, input_start="gradient")
    done = run_python("-c", WIDE, tmp_path)
    assert done.returncode == 0, done.stderr
    foreseen = training_bytes(run.config, run.input_dim)
    assert 0.75 < int(done.stdout.rpartition("peak ")[2]) / foreseen < 1.25


def test_killed_in_mid_epoch_it_ends_with_the_weights_of_an_unbroken_run(titles, tmp_path, capsys):
    options = {"dropout": 0.3, "input_dropout": 0.1, "decay": "linear", "input_start": "gradient"}
    run = preprocessed_run(tmp_path / "broken", titles, num_chunks=1, epochs=60, **options)
    whole = copy_run(run, tmp_path / "whole")
    flags = ["--run", run.paths.root, "--checkpoint_minutes", "0"]
    kills = 0
    for wanted in (50, 400, 1000):
        process = start_stage("train", *flags)
        while process.poll() is None:
            kept = run.paths.training(0).glob("step_*[0-9]")
            if max((int(path.name[5:]) for path in kept), default=0) >= wanted:
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.002)
        process.wait()
        process.stdout.close()
        assert not run.trained_chunks()
    assert kills == 3
    train(run.paths.root, checkpoint_minutes=0)
    assert "goes on at epoch" in capsys.readouterr().out
    train(whole.paths.root)
    assert_same_weights(run, whole, [0])
    assert losses_of(run, 0) == pytest.approx(losses_of(whole, 0))


def test_a_start_along_the_gradient_is_ahead_after_an_epoch(titles, tmp_path):
    losses, options = [], {"num_chunks": 1, "epochs": 1, "bias_start": "log_odds"}
    options |= {"learning_rate": 1e-3, "init_stddev": 0.2}
    for start in ("random", "gradient"):
        run = preprocessed_run(tmp_path / start, titles, input_start=start, **options)
        train(run.paths.root)
        losses += losses_of(run, 0)
    assert losses[1] < 0.9 * losses[0]


@pytest.mark.skipif(not cpu_has_bfloat16(), reason="a CPU that is slow at bfloat16, or crashes")
def test_mixed_precision_learns_as_well_and_is_on_record(run, trained, tmp_path):
    stage("train", f"--run={tmp_path}", "--chunks=1", "--mixed_precision")
    states = [read_state(each.paths.chunk(1)) for each in (run, trained)]
    assert [state["products"] for state in states] == ["bfloat16", "float32"]
    mixed, full = (losses_of(each, 1)[-1] for each in (run, trained))
    assert mixed != full
    assert mixed == pytest.approx(full, rel=0.1)


def test_mixed_precision_is_left_out_aloud_where_the_cpu_is_not_able(
    preprocessed, monkeypatch, capsys
):
    monkeypatch.setattr("solar_tf.training.trainer.cpu_has_bfloat16", lambda: False)
    trainer = ChunkTrainer(preprocessed, 1, mixed_precision=True)
    assert trainer.model.product_type.name == "float32"
    assert "chunk 1: no --mixed_precision" in capsys.readouterr().out


def test_two_trainers_share_the_chunks_and_repeat_none(run, trained, tmp_path):
    trainers = [start_stage("train", "--gpu", gpu, "--run", tmp_path) for gpu in (0, 1)]
    outputs = [trainer.communicate()[0] for trainer in trainers]
    assert [trainer.returncode for trainer in trainers] == [0, 0]
    said = "\n".join(outputs)
    assert "no GPU 1 here: training on the CPU" in said
    assert [said.count(f"chunk {chunk}: loss") for chunk in range(3)] == [1, 1, 1]
    assert_same_weights(run, trained, range(3))


def test_a_trainer_has_one_model_in_memory(run, tmp_path):
    gc.collect()
    before = sum(isinstance(thing, ChunkModel) for thing in gc.get_objects())
    gc.disable()  # nothing is freed by chance
    try:
        train(tmp_path)
        alive = sum(isinstance(thing, ChunkModel) for thing in gc.get_objects())
    finally:
        gc.enable()
    assert alive - before <= 1


def test_a_chunk_that_another_trainer_holds_is_left_to_it_or_waited_for(run, trained, tmp_path):
    with contextlib.ExitStack() as holder:
        holder.enter_context(try_lock(run.paths.chunk_lock(0)))
        train(tmp_path, chunks=[0, 2])
        assert run.trained_chunks() == [2]
        with pytest.raises(UserError, match="another trainer holds 1 of these chunks"):
            train(tmp_path, chunks=[0], wait=0.01)
        threading.Timer(0.5, holder.close).start()
        train(tmp_path, chunks=[0], wait=60)
    assert run.trained_chunks() == [0, 2]
    assert_same_weights(run, trained, [0, 2])


def test_sigterm_keeps_what_is_complete(run, trained, tmp_path):
    process = start_stage("train", "--run", tmp_path)
    while not run.trained_chunks() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert run.trained_chunks()
    assert not list(run.paths.root.rglob("*.tmp"))
    train(tmp_path)
    assert_same_weights(run, trained, range(3))


def test_a_stage_out_of_order_is_a_clear_error(tmp_path):
    for program in ("train", "infer"):
        done = stage(program, "--run", tmp_path / "none", check=False)
        assert done.returncode == 1
        assert "run preprocess.py" in done.stderr
        assert "Traceback" not in done.stderr


def test_chunks_out_of_range_are_a_clear_error(preprocessed):
    with pytest.raises(UserError, match="chunks 0 to 2"):
        train(preprocessed.paths.root, chunks=[3])


def test_a_loss_that_is_no_number_stops_with_its_place(titles, tmp_path):
    run = preprocessed_run(tmp_path, titles, learning_rate=1e38)
    with pytest.raises(UserError, match=r"chunk 0, epoch 0, batch \d+: the loss is"):
        train(tmp_path)
    assert not run.trained_chunks()


def test_weights_that_are_no_numbers_are_never_saved(run):
    """Where the loss hides it, the checkpoint does not."""
    trainer = ChunkTrainer(run, 1, checkpoint_minutes=0)
    trainer.model.optimizer.iterations.assign(40)
    trainer.save_checkpoint()
    trainer.model.weights_by_name()["output_bias"].assign(np.full(24, np.inf, np.float32))
    trainer.model.optimizer.iterations.assign(45)
    with pytest.raises(UserError, match=r"chunk 1, epoch 1, batch 6: after it output_bias hold"):
        trainer.save_checkpoint()
    (kept,) = run.paths.training(1).iterdir()
    assert kept == run.paths.checkpoint(1, 40)


def test_inputs_that_are_no_numbers_are_blamed(run):
    splits = np.arange(601)
    values = np.ones(600, np.float32)
    values[77] = np.inf
    path = run.paths.records("train", 0, 0)
    columns = {IDS: (splits, splits[:-1] % 7), BUCKETS: (splits, splits[:-1] % 7)}
    facts = write_records(path, columns | {VALUES: (splits, values)})
    run.files[run.paths.name_of(path)] = facts
    with pytest.raises(UserError) as caught:
        ChunkTrainer(run, 0).train()
    assert re.fullmatch(
        r"chunk 0, epoch 0, batch \d+: the loss is nan, as values of its inputs hold NaN or Inf: "
        rf"the last checkpoint is kept; delete {path.parent} and run preprocess\.py again",
        str(caught.value),
    )


def test_what_a_trainer_leaves_when_killed_at_its_last_step_is_cleared(trained, tmp_path):
    run = copy_run(trained, tmp_path)
    run.paths.checkpoint(1, 77).mkdir(parents=True)
    with try_lock(run.paths.chunk_lock(1)):
        train(tmp_path)
        assert run.paths.training(1).exists()  # somebody is at it
    train(tmp_path)
    assert not run.paths.training(1).exists()


@pytest.mark.parametrize("damage", ["cut at a row", "flipped"])
def test_damaged_records_are_named(run, tmp_path, damage):
    path = run.paths.records("train", 1, 0)
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[len(data) // 2] ^= 1
        what = ".*preprocess.py"
    else:  # refused before the first epoch
        del data[: 16 + int.from_bytes(data[:8], "little")]
        what = "missing or cut short"
    path.write_bytes(data)
    with pytest.raises(UserError, match=rf"chunk_01/shard_00000\.tfrecord: {what}"):
        train(tmp_path, chunks=[1])


def test_a_damaged_checkpoint_is_named(run, tmp_path):
    ChunkTrainer(run, 0).save_checkpoint()
    path = run.paths.checkpoint(0, 0) / "output_kernel.npy"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(UserError, match=r"step_\d+.*train.py again"):
        train(tmp_path)


def test_tensorboard_logs_are_written_on_request(run, tmp_path):
    train(tmp_path, chunks=[0], tensorboard=True)
    assert list(run.paths.tensorboard(0).rglob("events.*"))
