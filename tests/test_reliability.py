"""What docs/reliability.md promises: kills, full disks, damage, strangers, older versions."""

import ast
import contextlib
import errno
import functools
import os
import random
import re
import resource
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from conftest import ROOT, files_of, open_titles, run_python, small_config, stage, write_titles

from solar_tf.errors import UserError
from solar_tf.operations.check import check
from solar_tf.preprocessing.stage import preprocess
from solar_tf.retrieval.evaluation import infer
from solar_tf.retrieval.searcher import answer
from solar_tf.run.directory import open_run
from solar_tf.run.files import read_arrays
from solar_tf.run.manifest import READABLE
from solar_tf.training.stage import train

# Kills.


def test_a_sample_of_the_torture(tmp_path):
    """The whole is `make torture`: every stage killed at hundreds of points."""
    done = run_python(ROOT / "benchmarks" / "torture.py", "--quick", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    # 8, 3 and 3 moments of the stages, and a random time of each, however fast they are.
    assert "\n17 kills, 0 failures" in done.stdout
    for program in ("preprocess.py", "train.py", "infer.py"):
        for number in ("SIGKILL", "SIGTERM"):
            assert re.search(rf"{program} +\| {number}", done.stdout)


# Disks.


class SmallDisk:
    """A file system of its own, of any size and state."""

    def __init__(self, folder):
        self.folder = folder

    def mount(self, options):
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", self.folder]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"mounting a file system needs root: {done.stderr.strip()}")

    def leave(self, size):
        """Leave `size` bytes free."""
        used = sum(file.stat().st_blocks for file in self.folder.rglob("*")) * 512
        self.mount(f"remount,rw,size={max(used + size, 4096)}")  # 0 would be no limit


@pytest.fixture
def disk(tmp_path):
    if shutil.which("mount") is None:
        pytest.skip("there is no mount here")
    folder = tmp_path / "disk"
    folder.mkdir()
    disk = SmallDisk(folder)
    disk.mount("size=50m")
    yield disk
    subprocess.run(["umount", "--lazy", folder], check=True)


def work(stage, root, titles):
    if stage == "preprocess":
        preprocess(root, open_titles(titles), small_config(), 1)
    elif stage == "train":
        train(root, chunks=[0], trainers=1)
    else:
        infer(root, top_buckets=(7,), workers=1)


RESULTS = "topm", "predictions*", "metrics*"


@pytest.fixture(scope="module")
def unbroken(titles, preprocessed, trained, tmp_path_factory):
    """Of each stage: the run before it, and its files after it that are the same every time."""
    after = tmp_path_factory.mktemp("unbroken")
    shutil.copytree(trained.paths.root, after, dirs_exist_ok=True)
    work("infer", after, titles)
    made = files_of(after)
    weights = [name for name in made if re.match(r"chunks/chunk_00/.*\.npy", name)]
    return {
        "preprocess": (None, files_of(preprocessed.paths.root)),
        "train": (preprocessed.paths.root, {name: made[name] for name in weights}),
        "infer": (trained.paths.root, {name: made[name] for name in ["predictions.npz"]}),
    }


@pytest.mark.parametrize("stage", ["preprocess", "train", "infer"])
@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_a_full_or_read_only_disk_is_a_clear_error_and_no_more(
    stage, trouble, disk, titles, unbroken
):
    before, expected = unbroken[stage]
    root = disk.folder / "run"
    if before:
        shutil.copytree(before, root, ignore=shutil.ignore_patterns(*RESULTS))
    whole = files_of(root)
    rooms = (0, 4096, 16384) if stage == "preprocess" else (8192,)
    for room in rooms if trouble == "full" else (None,):
        disk.mount("remount,ro") if room is None else disk.leave(room)
        with pytest.raises(OSError) as caught:
            work(stage, root, titles)
        assert caught.value.errno == (errno.EROFS if room is None else errno.ENOSPC)
        assert str(caught.value.filename).startswith(str(disk.folder))
        assert not [*root.rglob("*.tmp")]
        left = files_of(root)
        assert {name: left[name] for name in whole} == whole
    disk.mount("remount,rw,size=50m")
    work(stage, root, titles)
    found = files_of(root)
    assert {name: found.get(name) for name in expected} == expected
    assert not [*root.rglob("*.tmp")]
    assert check(root).problems == []


def test_a_run_that_may_only_be_read_answers_queries_and_is_checked(disk, trained):
    root = disk.folder / "run"
    shutil.copytree(trained.paths.root, root)
    disk.mount("remount,ro")
    assert answer(root, "topic7", m=7, k=1)[0].title == "about topic7"
    assert check(root).problems == []


def test_a_limit_on_file_sizes_is_a_clear_error(titles, tmp_path):
    """The same as a full disk, where mounting one needs root."""
    flags = [f"--{name}={titles}/{name}.txt" for name in ("train", "test", "labels")]
    flags += [f"--{name}={value}" for name, value in small_config().to_dict().items()]
    flags += ["--workers=1", "--run", tmp_path / "run"]
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (20_000, 20_000))
    done = stage("preprocess", *flags, check=False, preexec_fn=limit)
    assert done.returncode == 1
    assert re.fullmatch(rf"error: {tmp_path}/run/\S+: File too large: make room .*\n", done.stderr)
    assert not [*tmp_path.rglob("*.tmp")]
    preprocess(tmp_path / "run", open_titles(titles), small_config(), 1)
    assert check(tmp_path / "run").problems == []


WITHOUT_PERMISSION = """
import os, sys
from solar_tf.cli.programs import errors_explained
from solar_tf.config import SolarConfig
from solar_tf.datasets.dataset import open_files
from solar_tf.preprocessing.stage import preprocess

def work(root):
    dataset = open_files(sys.argv[1] + "/train.txt", sys.argv[1] + "/test.txt")
    preprocess(root, dataset, SolarConfig(num_chunks=1, num_buckets=9), 1)

work(sys.argv[2] + "/allowed")  # also loads all that another user may not be able to read
if os.getuid() == 0:  # root may do everything
    os.setegid(65534)
    os.seteuid(65534)
with errors_explained():
    work(sys.argv[2] + "/forbidden/run")
"""


def test_no_permission_is_a_clear_error():
    with tempfile.TemporaryDirectory() as folder:  # which all users can reach
        Path(folder).chmod(0o755)
        Path(folder, "forbidden").mkdir(0o500 if os.getuid() else 0o755)
        write_titles(Path(folder, "data"), 40, 10)
        done = run_python("-c", WITHOUT_PERMISSION, f"{folder}/data", folder)
        said = "Permission denied: make room or give access, then run it again"
        assert done.stderr == f"error: {folder}/forbidden/run: {said}\n"
        assert done.returncode == 1
        assert not [*Path(folder, "forbidden").iterdir()]


# Damage.

ARTIFACTS = {
    "config.json": "preprocess.py",
    "records/summary.json": "run preprocess.py again",
    "labels/counts.npy": "run preprocess.py again",
    "vocab/words.txt": "run preprocess.py again",
    "rows/test/shard_00000.npz": "run preprocess.py again",
    "records/test/chunk_01/shard_00000.tfrecord": "run preprocess.py again",
    "index/chunk_02.pkl": "run preprocess.py again",
    "chunks/chunk_01/output_kernel.npy": "run train.py again",
    "chunks/chunk_01/state.json": "run train.py again",
}


@pytest.mark.parametrize("how", ["flipped", "cut"])
@pytest.mark.parametrize(("name", "remedy"), ARTIFACTS.items())
def test_a_damaged_artifact_is_refused_before_it_is_used(name, remedy, how, trained, tmp_path):
    ignored = shutil.ignore_patterns(*RESULTS, "verified.json")
    shutil.copytree(trained.paths.root, tmp_path / "run", ignore=ignored)
    path = tmp_path / "run" / name
    content = bytearray(path.read_bytes())
    if how == "cut":
        del content[-len(content) // 3 :]
    else:
        content[random.Random(7).randrange(len(content) // 3, len(content) // 2)] ^= 2
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"{re.escape(name)}: .*{re.escape(remedy)}"):
        infer(tmp_path / "run", top_buckets=(7,), workers=1)
    assert not [*(tmp_path / "run").glob("predictions*")]


# Strangers.

UNSAFE_CALLS = {"eval", "exec", "compile", "__import__"}
UNSAFE_NAMES = {"enable_unsafe_deserialization", "cPickle", "dill", "joblib", "shelve", "marshal"}
OWN_PIPES = {"workers.py", "cluster.py"}  # unpickle what their own processes send
PROGRAMS = [ROOT / name / f"{name}.py" for name in ("preprocess", "train", "infer")]


@pytest.mark.parametrize(
    "path",
    [*PROGRAMS, *sorted((ROOT / "solar_tf").rglob("*.py"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_nothing_unpickles_or_runs_what_it_reads(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else None
            assert name not in UNSAFE_CALLS, f"{path}:{node.lineno}"
            for keyword in node.keywords:
                value = getattr(keyword.value, "value", None)
                assert (keyword.arg, value) not in {("allow_pickle", True), ("safe_mode", False)}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            called = node.value.id, node.attr
            if path.name not in OWN_PIPES:
                assert called not in {("pickle", "load"), ("pickle", "loads")}, path
        names = {
            getattr(node, "attr", None), getattr(node, "id", None),
            *(alias.name for alias in getattr(node, "names", []) if isinstance(alias, ast.alias)),
        }  # fmt: skip
        assert not names & UNSAFE_NAMES, path


# Older versions.

KEPT = sorted((ROOT / "tests" / "data").glob("run_format_*"))


@pytest.fixture(params=KEPT, ids=lambda path: path.name)
def kept(request, tmp_path):
    """A run as a released version left it, with its data."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_a_run_of_every_released_format_is_read(kept):
    root = kept / "run"
    run = open_run(root)
    assert check(root).problems == []
    assert answer(root, "topic3", m=4, k=3)[0].label in range(8)
    before = read_arrays(run.paths.predictions(), "infer.py")
    for path in (run.paths.predictions(), run.paths.metrics(), *run.paths.topm_folder.iterdir()):
        path.unlink()
    infer(root, top_buckets=(4,), workers=1)
    after = read_arrays(run.paths.predictions(), "infer.py")
    for name, ids in before.items():
        if name.endswith("_ids"):
            assert (after[name][:, 0] == ids[:, 0]).mean() > 0.8, name  # rounding may differ


def test_a_run_of_every_released_format_goes_on(kept):
    root = kept / "run"
    run = open_run(root)
    shutil.rmtree(run.paths.chunk(1))
    train(root, trainers=1)
    assert run.trained_chunks() == [0, 1]
    dataset = open_titles(kept / "data")
    assert preprocess(root, dataset, run.config, 1) == run
    with contextlib.suppress(FileNotFoundError):
        run.paths.index(0).unlink()
    if run.files:  # format 1 does not know what it lacks
        preprocess(root, dataset, run.config, 1)
        assert run.paths.index(0).exists()


def test_the_kept_runs_are_of_all_formats_and_small():
    assert [file.name for file in KEPT] == [f"run_format_{n}.tar.xz" for n in READABLE]
    assert all(file.stat().st_size < 200_000 for file in KEPT)
