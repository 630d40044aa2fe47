"""A real Ray cluster of two nodes on loopback addresses, with tokens, and its disasters.

The nodes are two raylets with a CPU each. Everything is compared with a run of one machine.
"""

import importlib.util
import json
import math
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest.mock
from pathlib import Path

import pytest
from conftest import (
    environment,
    files_of,
    open_titles,
    small_config,
    stage,
    start_stage,
    write_titles,
)

from solar_tf.distributed import Cluster, connect
from solar_tf.errors import UserError
from solar_tf.operations.transfer import pull
from solar_tf.preprocessing.stage import preprocess
from solar_tf.retrieval.evaluation import infer
from solar_tf.run.objects import Objects
from solar_tf.runtime.workers import run_tasks
from solar_tf.training.stage import train

HEAD = "127.0.0.2"  # Ray takes 127.0.0.1 for the machine's outer address
PORT = 6409
EPOCHS = 30  # enough to be killed in the midst of it
PATIENCE = 1500  # seconds; only a machine with much other work comes near

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is not installed: pip install solar-tf[ray]",
)


class Nodes:
    """The raylets of a cluster; each is a `ray start --block`, whose child it is."""

    def __init__(self, folder, env):
        self.folder, self.processes = folder, {}
        self.env = environment(env) | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_failure_threshold": "6",
            "SOLAR_SHARED": str(folder / "here"),
            "SOLAR_MIRROR": str(folder / "mirrors" / "driver"),
        }

    def start(self, number):
        """Start node 0, the head, or another."""
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        command += ["--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats"]
        if number:
            command += [f"--address={HEAD}:{PORT}", f"--node-ip-address=127.0.0.{2 + number}"]
        else:
            command += ["--head", f"--node-ip-address={HEAD}", f"--port={PORT}"]
            command += ["--include-dashboard=false", f"--temp-dir={self.folder}/ray"]
        # The nodes mount the shared folder in different places.
        view = self.folder / f"node_{number}"
        view.symlink_to(self.folder / "here")
        mirrors = self.folder / "mirrors" / f"node_{number}"
        own = {"SOLAR_SHARED": str(view), "SOLAR_MIRROR": str(mirrors)}
        with open(self.folder / f"node_{number}.log", "w") as log:
            self.processes[number] = subprocess.Popen(
                command, env=self.env | own, stdout=log, stderr=log
            )

    def wait(self, number):
        """Wait until a node has joined."""
        log = self.folder / f"node_{number}.log"
        until(lambda: "Ray runtime started" in log.read_text())

    def raylet(self, number):
        parent = self.processes[number].pid
        pids = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return next(int(pid) for pid in pids if "raylet" in Path(f"/proc/{pid}/comm").read_text())

    def stop(self):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait()


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(0.005)
    return value


@pytest.fixture(scope="module")
def nodes(s3_server):
    folder = Path(tempfile.mkdtemp(prefix="solar_", dir="/tmp"))  # sockets want a short path
    (folder / "here").mkdir()
    nodes = Nodes(folder, s3_server.env if s3_server else {})
    try:
        nodes.start(0)
        nodes.wait(0)
        nodes.start(1)
        nodes.wait(1)
        yield nodes
    finally:
        nodes.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def titles(tmp_path_factory):
    """Two blocks of queries."""
    return write_titles(tmp_path_factory.mktemp("titles"), num_test=2100)


def run_alone(root, titles, epochs):
    """A run of one machine through all stages."""
    preprocess(root, open_titles(titles), small_config(epochs=epochs), 1)
    train(root, trainers=1)
    infer(root, top_buckets=(7,))
    return root


@pytest.fixture(scope="module")
def alone(titles, tmp_path_factory):
    return run_alone(tmp_path_factory.mktemp("alone") / "run", titles, EPOCHS)


def flags_of(titles, epochs):
    """What preprocess.py is told on the cluster."""
    config = [f"--{name}={value}" for name, value in small_config(epochs=epochs).to_dict().items()]
    return *config, *(f"--{role}={titles / role}.txt" for role in ("train", "test", "labels"))


@pytest.fixture(scope="module")
def run(nodes, titles):
    """A run on the cluster after stage 1."""
    root = nodes.folder / "here" / "run"
    ray_stage("preprocess", nodes, root, *flags_of(titles, EPOCHS))
    return root


def ray_stage(program, nodes, root, *flags, runner=stage):
    where = ["--run", root, "--launcher", "ray", "--address", f"{HEAD}:{PORT}"]
    return runner(program, *where, *flags, env=nodes.env)


def test_preprocessing_makes_the_same_files(run, alone):
    stage_1 = ("labels", "vocab", "rows", "records", "index")
    assert files_of(run, *stage_1) == files_of(alone, *stage_1)


def holder(run, chunk):
    """The process that trains a chunk and has saved a checkpoint of it, or None."""
    try:
        words = (run / "chunks" / f"chunk_{chunk:02d}.lock").read_text().split()
        checkpoints = run.glob(f"chunks/chunk_{chunk:02d}.training/step_?????????")
        return int(words[1]) if any(checkpoints) else None
    except (FileNotFoundError, IndexError):
        return None


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def test_training_outlives_a_killed_task_a_killed_node_and_gets_help_from_a_late_one(
    run, nodes, alone
):
    trainer = ray_stage("train", nodes, run, runner=start_stage)
    try:
        seen = {}

        def look():
            """Completed chunks as they appear: each may appear once."""
            for path in run.glob("chunks/chunk_??"):
                seen.setdefault(path.name, path.stat().st_ino)
            assert trainer.poll() is None, trainer.stdout.read()
            return [pid for chunk in range(3) if (pid := holder(run, chunk))]

        task = until(look)[0]
        os.kill(task, signal.SIGKILL)
        assert len(seen) < 3
        raylet = nodes.raylet(1)
        until(lambda: [pid for pid in look() if pid != task and parent(pid) == raylet])
        os.kill(raylet, signal.SIGKILL)
        assert len(seen) < 3
        nodes.start(2)
        output, _ = trainer.communicate(timeout=PATIENCE)
    finally:
        trainer.kill()
    assert trainer.returncode == 0, output
    assert output.count("goes on at epoch") >= 1  # from a checkpoint, on another node
    found, expected = files_of(run, "chunks"), files_of(alone, "chunks")
    assert found.keys() == expected.keys()
    for name in expected:
        if name.endswith(".npy"):
            assert found[name] == expected[name], name
        elif name.endswith("history.json"):
            ours, theirs = (json.loads(files[name]) for files in (found, expected))
            assert [epoch["loss"] for epoch in ours] == [epoch["loss"] for epoch in theirs]
            assert len(ours) == EPOCHS
    for name, inode in seen.items():
        assert (run / "chunks" / name).stat().st_ino == inode, f"{name} was trained twice"


def test_inference_finds_the_same_labels(run, nodes, alone):
    """Two blocks of queries, three ranges of labels; on the head and the late node."""
    done = ray_stage("infer", nodes, run, "--top_buckets=7", "--label_shards=3")
    assert "full" in done.stdout
    assert files_of(run)["predictions.npz"] == files_of(alone)["predictions.npz"]
    assert not (run / "scratch").exists()


def test_a_run_in_a_store_by_nodes_with_mirrors_of_their_own(nodes, s3_server, titles, tmp_path):
    if s3_server is None:
        pytest.skip("an S3 server and its client are not installed: pip install solar-tf[test]")
    url = "s3://bucket/cluster"
    ray_stage("preprocess", nodes, url, *flags_of(titles, epochs=2))
    ray_stage("train", nodes, url)
    # Few queries at a time: three groups of forward passes and rankings.
    sizes = "--top_buckets=7", "--label_shards=2", "--scratch_gb=0"
    done = ray_stage("infer", nodes, url, *sizes)
    assert f"Next: infer.py --run {url}" in done.stdout
    mirrors = {path.name: path for path in (nodes.folder / "mirrors").iterdir()}
    assert not [*mirrors.pop("driver").rglob("*.tfrecord")]  # the driver did no node's work
    assert len(mirrors) == 2  # but each node did something

    run_alone(tmp_path / "run", titles, epochs=2)
    with unittest.mock.patch.dict(os.environ, nodes.env):
        assert not pull(url, tmp_path / "pulled").problems
        assert not Objects(url).sizes("scratch")
    found, expected = files_of(tmp_path / "pulled"), files_of(tmp_path / "run")
    timed = ("history.json", "state.json", "metrics.json")  # topm has other blocks, and times
    same = [name for name in expected if not name.startswith("topm") and not name.endswith(timed)]
    assert len(same) > 25
    for name in same:
        assert found[name] == expected[name], name


@pytest.fixture(scope="module")
def cluster(nodes):
    with unittest.mock.patch.dict(os.environ, nodes.env):
        import ray  # which reads the environment

        yield connect(nodes.folder / "here" / "tasks", f"{HEAD}:{PORT}")
        ray.shutdown()


def test_results_come_in_order_and_errors_as_they_are(cluster):
    assert list(run_tasks(math.sqrt, range(20), cluster)) == [math.sqrt(i) for i in range(20)]
    with pytest.raises(ValueError, match="math domain error|nonnegative"):
        list(run_tasks(math.sqrt, [4, -1], cluster))
    with pytest.raises(UserError, match="a task was lost 6 times"):
        list(run_tasks(os._exit, [1], cluster))


def test_no_more_tasks_are_taken_than_there_is_room_for(cluster):
    taken = []
    results = run_tasks(math.sqrt, (taken.append(i) or i for i in range(100)), cluster)
    next(results)
    assert len(taken) <= 2 * 2
    results.close()


def test_a_node_that_sees_another_directory_refuses(cluster, tmp_path):
    def tasks():
        """One task; another machine would find another mark, after the driver has read its own."""
        (tmp_path / "cluster.lock").write_text("another's")
        yield 4

    elsewhere = Cluster(str(tmp_path))
    assert list(run_tasks(math.sqrt, [4], elsewhere)) == [2.0]  # here all nodes see it
    with pytest.raises(UserError, match="does not see the run there"):
        list(run_tasks(math.sqrt, tasks(), elsewhere))


def test_a_wrong_address_is_an_error_of_one_line(nodes):
    done = stage("train", "--launcher", "ray", "--address", "nonsense", check=False, env=nodes.env)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: --address nonsense:")
