"""Data with a planted answer, small enough to go through every stage in seconds."""

import contextlib
import importlib.util
import itertools
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as the stage programs, to the last digit
ROOT = Path(__file__).parent.parent
SMALL = {
    "num_chunks": 3,
    "num_buckets": 24,
    "feature_dim": 200,
    "hidden_dim": 32,
    "batch_size": 16,
    "epochs": 6,
    "learning_rate": 1e-2,
    "seed": 3,
}


def write_titles(folder, num_train=600, num_test=120, num_labels=40, seed=0):
    """Titles whose words name their labels: two of 40 topics, each with a word of its own."""
    generator = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in (("train", num_train), ("test", num_test)):
        with open(folder / f"{split}.txt", "w") as file:
            for _ in range(rows):
                labels = sorted(generator.choice(num_labels, 2, replace=False).tolist())
                words = [f"topic{label}" for label in labels] + [f"noise{generator.integers(30)}"]
                file.write(f"{','.join(map(str, labels))}\t{' '.join(words)}\n")
    (folder / "labels.txt").write_text("".join(f"about topic{i}\n" for i in range(num_labels)))
    return folder


def open_titles(folder):
    from solar_tf.datasets.dataset import open_files

    return open_files(*(folder / f"{name}.txt" for name in ("train", "test", "labels")))


def texts_and_labels(source):
    """The texts of a source's rows, and a list of their labels."""
    rows = source.read()
    return rows.texts, [rows.labels[a:b] for a, b in itertools.pairwise(rows.label_splits)]


def small_config(**changes):
    from solar_tf.config import SolarConfig

    return SolarConfig(**(SMALL | changes))


def copy_run(run, folder):
    from solar_tf.run.directory import open_run

    return open_run(shutil.copytree(run.paths.root, folder, dirs_exist_ok=True))


def environment(env=None):
    return os.environ | {"PYTHONPATH": str(ROOT)} | (env or {})


def run_python(*arguments, env=None, **options):
    """Run Python as a user does; returns the finished process."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment(env), **options)


def run_solar(*arguments, **options):
    return run_python("-m", "solar_tf", *arguments, **options)


def solar_here(*arguments):
    """The exit code of the `solar` command, run in this process."""
    from solar_tf.cli.solar import main

    try:
        return main([*map(str, arguments)])
    except SystemExit as end:
        return end.code


def stage(program, *flags, check=True, **options):
    """Run a stage program; returns the finished process."""
    done = run_python(ROOT / program / f"{program}.py", *flags, **options)
    if check and done.returncode:
        raise AssertionError(f"{program}.py failed:\n{done.stdout}\n{done.stderr}")
    return done


def start_stage(program, *flags, env=None):
    """Start a stage program in the background."""
    command = [sys.executable, ROOT / program / f"{program}.py", *map(str, flags)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, text=True, env=environment(env), **streams)


@contextlib.contextmanager
def child(code, *arguments):
    """A Python process that has said "ready"; killed with SIGKILL at the end of the block."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def files_of(root, *folders):
    """The content of all files below `root`, by relative path."""
    root = Path(root)
    return {
        str(path.relative_to(root)): path.read_bytes()
        for folder in folders or (".",)
        for path in sorted((root / folder).rglob("*"))
        if path.is_file() and path.suffix != ".lock" and path.name != "verified.json"
    }


def flipped(content, *bits):
    """Bytes with some bits changed."""
    content = bytearray(content)
    for bit in bits:
        content[bit // 8] ^= 1 << bit % 8
    return bytes(content)


@contextlib.contextmanager
def taking_at_most(most):
    """Fails if the block takes more bytes of memory at a time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


class ObjectStore:
    """A real S3 server on 127.0.0.1, of a thread of this process."""

    def __init__(self, server):
        self.address = server.get_host_and_port()
        self.env = {
            "AWS_ENDPOINT_URL": "http://{}:{}".format(*self.address),
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "nothing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def client(self):
        import boto3

        names = {"aws_access_key_id": "anybody", "aws_secret_access_key": "nothing"}
        where = {"endpoint_url": self.env["AWS_ENDPOINT_URL"], "region_name": "us-east-1"}
        return boto3.client("s3", **where, **names)

    def flip(self, name, place):
        """Change a bit of a byte of an object of the bucket."""
        content = self.client().get_object(Bucket="bucket", Key=name)["Body"].read()
        self.client().put_object(Bucket="bucket", Key=name, Body=flipped(content, 8 * place))


@pytest.fixture(scope="session")
def s3_server():
    """The server with an empty bucket, or None where its packages are not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("moto", "flask", "s3fs")):
        yield None
        return
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    store = ObjectStore(server)
    store.client().create_bucket(Bucket="bucket")
    yield store
    server.stop()


@pytest.fixture
def s3(s3_server, monkeypatch, tmp_path):
    """The server, for this process and its mirrors in a folder of the test."""
    if s3_server is None:
        pytest.skip("an S3 server and its client are not installed: pip install solar-tf[test]")
    for name, value in s3_server.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SOLAR_MIRROR", str(tmp_path / "mirrors"))
    return s3_server


@pytest.fixture(scope="session")
def titles(tmp_path_factory):
    return write_titles(tmp_path_factory.mktemp("titles"))


@pytest.fixture(scope="session")
def preprocessed(titles, tmp_path_factory):
    """A run after stage 1; not to be changed."""
    from solar_tf.preprocessing.stage import preprocess

    return preprocess(tmp_path_factory.mktemp("run"), open_titles(titles), small_config(), 1)


@pytest.fixture(scope="session")
def trained_once(preprocessed, tmp_path_factory):
    """A run after stage 2; not to be changed."""
    from solar_tf.training.stage import train

    run = copy_run(preprocessed, tmp_path_factory.mktemp("trained") / "run")
    train(run.paths.root)
    return run


@pytest.fixture(scope="module")
def trained(trained_once, tmp_path_factory):
    """A copy of it for the tests of one file, where stage 3 may write."""
    return copy_run(trained_once, tmp_path_factory.mktemp("trained") / "run")


class TrainedRuns(dict):
    """Trained runs by what is special about them, made when they are asked for."""

    def __init__(self, folder, titles, counts):
        super().__init__(counts=counts)
        self.folder, self.titles = folder, titles

    def __missing__(self, kind):
        from solar_tf import Solar

        X, Y = texts_and_labels(open_titles(self.titles).train)
        if kind == "dense":
            X = np.zeros((len(Y), 40), np.float32)
            for row, labels in enumerate(Y):
                X[row, labels] = 1
        solar = Solar("debian", **SMALL, weighting="tfidf" if kind == "tfidf" else "counts")
        label_titles = [f"about topic{i}" for i in range(40)]
        self[kind] = solar.fit(X, Y, label_titles, run=self.folder / kind).run_
        return self[kind]


@pytest.fixture(scope="session")
def trained_runs(tmp_path_factory, titles, trained_once):
    """Runs of kind counts, tfidf and dense; not to be changed."""
    return TrainedRuns(tmp_path_factory.mktemp("runs"), titles, trained_once)


@pytest.fixture
def changed_run(trained, tmp_path):
    """A copy of the trained run, for changes."""
    return copy_run(trained, tmp_path / "run")
