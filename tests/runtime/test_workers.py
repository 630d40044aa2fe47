import atexit
import contextlib
import itertools
import math
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import ROOT

from solar_tf.errors import UserError
from solar_tf.runtime.workers import TRIES, run_tasks, started_ahead

# Tasks, for workers to import.

kept = ready = None


def square_slowly(task):
    time.sleep(0.02 * (task % 3 == 0))  # so that later tasks overtake
    return task * task


def die_the_first_time(task):
    """`task` is a path that the first to come leaves before it dies, or a number."""
    if isinstance(task, Path) and not task.exists():
        task.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def outlive(task):
    """Takes two seconds, in which the worker of another task dies; counts how often it began."""
    if task.name == "long":
        with open(task, "a") as file:
            file.write("began\n")
        time.sleep(2)
        return task.read_text()
    time.sleep(0.5)
    return die_the_first_time(task).name


def die_at_seven(task):
    if task == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def fail_at_three(task):
    if task == 3:
        raise UserError("train.txt:3: no tab: write labels<TAB>text")
    return task


def keep(*values):
    global kept
    kept = (os.getpid(), *values)


def get_ready():
    global ready
    ready = True


def look(task):
    time.sleep(0.1)
    return os.getpid(), ready, kept


def refuse(*reason):
    raise UserError(f"no {reason[0] if reason else 'kernels'}: get one")


class Reluctant:
    """What is told to end while it is being deleted, where Python drops exceptions."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)


def get_ready_reluctantly():
    Reluctant()


def get_ready_to_be_told_twice():
    atexit.register(os.kill, os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


def nap(task):
    time.sleep(task)
    return os.getpid(), task


def large(task):
    return bytes(task)[::-1]


def die_in_mid_message(task):
    """The first time, the worker is killed while its result waits for the parent to read it."""
    if isinstance(task, Path) and not task.exists():
        task.touch()
        time.sleep(0.5)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
    return bytes(5_000_000) if isinstance(task, Path) else task


def lose(task):
    return lambda: task  # cannot be pickled


class Unportable(Exception):
    def __init__(self, first, second):
        super().__init__(first)


def raise_unportable(task):
    raise Unportable(task, 2)


def heavy_modules(task):
    return {"tensorflow", "keras"} & sys.modules.keys()


def is_alive(process):
    """Whether a process runs: one that is dead but not yet waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(autouse=True)
def leaves_no_children():
    yield
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 20])
def test_results_come_in_the_order_of_the_tasks(workers, count):
    tasks = iter(range(count))
    assert list(run_tasks(square_slowly, tasks, workers)) == [i * i for i in range(count)]


@pytest.mark.parametrize("workers", [1, 2])
def test_no_more_than_two_tasks_per_worker_are_taken_ahead(workers):
    taken = []

    def tasks():
        for task in range(30):
            taken.append(task)
            yield task

    results = run_tasks(square_slowly, tasks(), workers)
    ahead = [len(taken) - done for done, _ in enumerate(results, 1)]
    assert len(ahead) == 30
    assert max(ahead) <= (2 * workers if workers > 1 else 0)
    if workers > 1:
        assert max(ahead) >= workers  # the workers never wait for a task


def test_workers_start_while_later_tasks_are_still_in_the_making():
    def tasks():
        yield from range(2)
        deadline = time.monotonic() + 60
        while len(multiprocessing.active_children()) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        yield len(multiprocessing.active_children())

    assert list(run_tasks(square_slowly, tasks(), 2)) == [0, 1, 4]


def test_a_long_task_holds_up_no_other():
    """A free worker takes the next task, even if another would have been next in turn."""
    results = run_tasks(nap, [5.0, 1.1, 1.1], 2)
    first, *others = [process for process, _ in results]
    assert first not in others


@pytest.mark.parametrize("workers", [1, 2])
def test_each_worker_is_initialized_and_one_alone_is_this_process(workers):
    results = run_tasks(look, range(300), workers, keep, ("a", 2))
    processes = set()
    while len(processes) < workers:  # one may start much later than the other
        process, _, seen = next(results)
        assert seen == (process, "a", 2)
        processes.add(process)
    processes.update(process for process, *_ in itertools.islice(results, 4))
    results.close()
    assert len(processes) == workers
    assert (os.getpid() in processes) == (workers == 1)


def test_workers_start_without_tensorflow():
    assert list(run_tasks(heavy_modules, range(4), 2)) == [set()] * 4


def test_workers_started_ahead_get_ready_and_then_do_the_work():
    with started_ahead(2, get_ready):
        ahead = {child.pid for child in multiprocessing.active_children()}
        assert len(ahead) == 2
        found = list(run_tasks(look, range(4), 2, keep, ("a",)))
    assert {process for process, _, _ in found} <= ahead
    assert {(ready, kept[1:]) for _, ready, kept in found} == {(True, ("a",))}


def test_one_that_was_killed_before_its_job_is_replaced(capsys):
    with started_ahead(2, get_ready):
        (first, _) = multiprocessing.active_children()
        os.kill(first.pid, signal.SIGKILL)
        first.join()
        assert list(run_tasks(square_slowly, range(20), 2)) == [i * i for i in range(20)]
    assert "ended by SIGKILL, its task is done again" in capsys.readouterr().out


def test_those_that_no_job_took_end_with_their_context():
    with pytest.raises(UserError), started_ahead(3, get_ready):
        assert len(multiprocessing.active_children()) == 3
        raise UserError("no such run")
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("prepare", [get_ready_reluctantly, get_ready_to_be_told_twice])
def test_a_worker_told_to_end_at_a_bad_moment_ends_in_silence(prepare, capfd):
    with started_ahead(2, prepare):
        children = multiprocessing.active_children()
        time.sleep(1.5)
    assert not any(child.is_alive() for child in children)
    assert capfd.readouterr() == ("", "")


def test_the_true_error_of_a_start_arrives():
    with started_ahead(2, refuse), pytest.raises(UserError, match="no kernels: get one"):
        list(run_tasks(square_slowly, range(4), 2))
    with pytest.raises(UserError) as caught:
        list(run_tasks(look, range(4), 2, refuse, ("GPU",)))
    assert str(caught.value) == "no GPU: get one"


def test_a_killed_worker_is_named_and_replaced_and_no_result_lost(tmp_path, capsys):
    tasks = [0, 1, tmp_path / "a", 3, 4, 5, tmp_path / "b", 7]
    assert list(run_tasks(die_the_first_time, tasks, 2)) == tasks
    assert capsys.readouterr().out.count("ended by SIGKILL, its task is done again") == 2


def test_a_killed_worker_leaves_the_tasks_of_others_alone(tmp_path):
    """A trainer that dies must not take hours of another trainer's work with it."""
    tasks = [tmp_path / "long", tmp_path / "a"]
    assert list(run_tasks(outlive, tasks, 2)) == ["began\n", "a"]


def test_a_task_that_always_kills_its_worker_is_an_error_after_a_few_tries():
    results = []
    started = time.monotonic()
    with pytest.raises(UserError, match=rf"ended {TRIES} times .* by SIGKILL, .* with --workers 1"):
        results.extend(run_tasks(die_at_seven, itertools.count(), 2))
    assert results == [*range(7)]
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_arrives_unchanged_and_in_its_turn(workers):
    results = []
    with pytest.raises(UserError) as caught:
        results.extend(run_tasks(fail_at_three, itertools.count(), workers))
    assert str(caught.value) == "train.txt:3: no tab: write labels<TAB>text"
    assert results == [0, 1, 2]

    def tasks():
        yield 1
        raise UserError("train.txt: is empty")

    with pytest.raises(UserError, match=r"^train\.txt: is empty$"):
        list(run_tasks(fail_at_three, tasks(), workers))
    with pytest.raises(ValueError, match="math domain error"):
        list(run_tasks(math.sqrt, [1, -1], workers))


def test_an_early_end_leaves_no_processes():
    results = run_tasks(nap, itertools.repeat(0.1), 2)
    process, _ = next(results)
    assert is_alive(process)
    results.close()
    assert multiprocessing.active_children() == []
    assert not is_alive(process)


def test_large_tasks_and_large_results_do_not_wait_for_one_another():
    tasks = [bytes([i]) * 3_000_000 for i in range(8)]
    assert list(run_tasks(large, tasks, 2)) == tasks


def test_a_worker_killed_in_the_middle_of_a_message_is_replaced(tmp_path):
    results = run_tasks(die_in_mid_message, [0, tmp_path / "a"], 2)
    assert next(results) == 0
    time.sleep(2)  # nobody reads the large result, and its pipe is full
    assert list(results) == [bytes(5_000_000)]
    assert (tmp_path / "a").exists()


def test_results_and_errors_that_cannot_be_sent_are_errors_with_their_traceback():
    with pytest.raises(Exception, match="pickle") as caught:
        list(run_tasks(lose, [1], 2))
    assert "in _work" in "".join(caught.value.__notes__)
    with pytest.raises(RuntimeError, match=r"(?s)in raise_unportable.*Unportable: 5"):
        list(run_tasks(raise_unportable, [5], 2))


def test_a_worker_that_hangs_is_named_and_left_alone(capsys):
    assert [task for _, task in run_tasks(nap, [1.0, 0.0], 2, patience=0.3)] == [1.0, 0.0]
    said = capsys.readouterr().out
    assert re.search(r"worker \d+ has been at one task for 0 minutes: if it hangs, kill it", said)


SCRIPT = """
import os, signal, sys
from runtime.test_workers import nap
from solar_tf.runtime.workers import run_tasks

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    results = run_tasks(nap, [0.2] * 1000, 2)
    workers = set()
    while len(workers) < 2:
        workers.add(next(results)[0])
    try:
        print(*workers, flush=True)
        list(results)
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.fixture
def parent(tmp_path):
    """A process with two workers, whose ids it has printed."""
    (tmp_path / "script.py").write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, tmp_path / "script.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        start_new_session=True,
    ) as process:
        yield process
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_workers_end_when_their_parent_is_killed(parent):
    workers = [int(word) for word in parent.stdout.readline().split()]
    assert len(workers) == 2
    assert all(map(is_alive, workers))
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10
    while any(map(is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, workers))


def test_an_interrupt_at_the_keyboard_is_answered_by_the_parent_alone(parent):
    parent.stdout.readline()
    os.killpg(parent.pid, signal.SIGINT)
    assert parent.communicate(timeout=120) == ("interrupted\n", "")
