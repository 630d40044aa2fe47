"""The memory of processes, measured, and a limit on it."""

import subprocess
import sys
import time

import pytest
from conftest import ROOT

from solar_tf.errors import UserError
from solar_tf.runtime import memory


def run_code(code, *arguments, check=True):
    """A Python process that has ended."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=check, cwd=ROOT)


GROWING = """
import subprocess, sys
from solar_tf.runtime.memory import tree_memory

before = tree_memory()
code = "x = bytearray(200_000_000); print('ready', flush=True); input()"
with subprocess.Popen(
    [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
) as process:
    process.stdout.readline()
    print(tree_memory() - before)
    process.kill()
print(tree_memory() - before)
"""


def test_memory_counts_this_process_and_those_below_it():
    # In a process of its own: this one's share of its libraries varies with who else uses them.
    more, after = map(float, run_code(GROWING).stdout.split())
    assert 195e6 < more < 260e6
    assert after < 50e6


FREEING = """
import resource, sys
import numpy as np
from solar_tf.runtime.memory import keep_freed

if sys.argv[1] == "keep":
    keep_freed()
for step in range(20):
    if step == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(50_000) for _ in range(8)]
    del arrays
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_a_process_may_keep_the_pages_that_it_frees():
    kept, given = (int(run_code(FREEING, what).stdout) for what in ("keep", "give"))
    assert kept < 50 < 1000 < given


def test_more_than_the_limit_ends_the_work_with_one_line():
    limit = memory.tree_memory() + 100e6
    said = "--max_memory: .* are in use, and the limit is"
    hoard = []
    with pytest.raises(UserError, match=said), memory.held_to(limit):
        hoard += (bytearray(b"x" * 50_000_000) for _ in range(10))
        time.sleep(20)
    hoard.clear()
    with memory.held_to(limit):
        time.sleep(2 * memory.LOOK_EVERY)
    time.sleep(2 * memory.LOOK_EVERY)  # nobody looks any more


@pytest.mark.parametrize(
    ("limit", "workers"), [(None, 8), (10e9, 8), (3.4e9, 3), (1.3e9, 1), (1.1e9, 1)]
)
def test_as_many_workers_as_fit(limit, workers):
    each, shared = 0.7e9, 0.1e9
    assert memory.choose_workers(limit, 8, shared, each) == workers


def test_too_small_a_limit_is_refused_with_the_smallest_that_is_not():
    with pytest.raises(UserError, match="500 MB are not enough here: give 1.05GB or more"):
        memory.choose_workers(0.5e9, 8, 0.1e9, 0.695e9)


WATCHED = """
import atexit, sys, threading, time
from solar_tf.cli import stages
from solar_tf.runtime import memory
peak = [0]
def watch():
    while True:
        peak[0] = max(peak[0], memory.tree_memory())
        time.sleep(0.05)
threading.Thread(target=watch, daemon=True).start()
import runpy
atexit.register(lambda: print("peak", peak[0]))
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def run_watched(program, *flags):
    """Exit code, output and peak memory of a stage program, measured from inside."""
    done = run_code(WATCHED, ROOT / program / f"{program}.py", *flags, check=False)
    peak = int(done.stdout.rpartition("peak ")[2]) if "peak " in done.stdout else 0
    return done, peak


def test_preprocess_holds_to_its_limit(titles, tmp_path):
    files = [f"--{name}={titles / name}.txt" for name in ("train", "test", "labels")]
    config = ["--num_chunks=2", "--num_buckets=24", "--feature_dim=200"]
    flags = [*files, *config, f"--run={tmp_path / 'run'}", "--workers=4"]
    refused, _ = run_watched("preprocess", *flags, "--max_memory=100MB")
    assert refused.returncode == 1
    assert "100 MB are not enough here: give 0.26GB or more" in refused.stderr
    assert not (tmp_path / "run").exists()
    done, peak = run_watched("preprocess", *flags, "--max_memory=600MB")
    assert done.returncode == 0, done.stderr
    assert "of 4 workers" in done.stdout
    assert 0 < peak < 600e6


def test_infer_holds_to_its_limit(trained, tmp_path):
    refused, _ = run_watched("infer", f"--run={trained.paths.root}", "--max_memory=300MB")
    assert refused.returncode == 1
    assert "300 MB are not enough here: give 0.7" in refused.stderr
    flags = [f"--run={trained.paths.root}", "--workers=4", "--top_buckets=9,5"]
    done, peak = run_watched("infer", *flags, "--max_memory=1GB")
    assert done.returncode == 0, done.stderr
    assert "1 of 4 workers" in done.stdout
    assert 0 < peak < 1e9
