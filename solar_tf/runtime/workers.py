"""Tasks spread over processes: bounded memory, results in order, dead workers replaced.

docs/architecture.md says which of its promises loky, joblib and concurrent.futures do not keep.
"""

import collections
import contextlib
import itertools
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

from solar_tf.errors import UserError
from solar_tf.runtime.console import say
from solar_tf.runtime.process import end_at_once, exit_when_terminated

TRIES = 3  # of a task whose process died
AHEAD = 2  # tasks taken per worker: the current one and the next
BRIEF = 1.0  # seconds; shorter tasks are sent ahead, so that a worker need not wait for the next
GRACE = 30.0  # seconds that a worker has for cleaning up when it is told to end
PATIENCE = 600.0  # seconds without a result before slow workers are named
DONE, FAILED, UNABLE = "done", "failed", "unable to start"  # messages of a worker


def run_tasks(function, tasks, workers, initializer=None, initargs=(), patience=PATIENCE):
    """Yield `function(task)` of every task, in order.

    At most a few tasks per worker are taken from `tasks` ahead of the results. Workers are
    spawned, so they share no state with a TensorFlow in this process; with one worker the
    tasks run in this process. A worker that dies (out of memory, say) is replaced and its
    tasks are done again. One that hangs is left alone, but named every `patience` seconds.

    `workers` is a number, or a `distributed.Cluster`, which has workers on other machines.
    """
    if not isinstance(workers, int):
        yield from workers.run_tasks(function, tasks, initializer, initargs)
        return
    tasks = iter(tasks)
    if workers == 1:
        if initializer:
            initializer(*initargs)
        yield from map(function, tasks)
        return
    # Pickled by itself: the modules that it needs are loaded after the initializer has run.
    pool = _Pool(workers, (pickle.dumps(function), initializer, initargs), patience)
    try:
        pending = collections.deque()
        while True:
            for content in itertools.islice(tasks, AHEAD * workers - len(pending)):
                pending.append(_Task(content))
                pool.submit(pending[-1])
            if not pending:
                break
            while not pending[0].state:
                pool.work()
            task = pending.popleft()
            if task.state == FAILED:
                raise task.result
            yield task.result
        _end(pool.workers, GRACE)
    finally:
        _end(pool.workers, 0)


@dataclass
class _Task:
    content: Any
    tries: int = 0
    state: str | None = None  # DONE or FAILED
    result: Any = None  # or the exception


_spares = []  # workers without a job


@contextlib.contextmanager
def started_ahead(count, prepare):
    """Start workers before there is a job for them; `run_tasks` takes them before new ones.

    Meanwhile each calls `prepare()`, which loads what the job will need. Workers that no job
    took end with the context.
    """
    # Pickled by itself: its modules are loaded after the worker has set up its signals.
    prepare = pickle.dumps(prepare)
    _spares.extend(_Worker(prepare) for _ in range(count if count > 1 else 0))
    try:
        yield
    finally:
        _end(_spares, 0)


class _Worker:
    """A process with a pipe of its own: a kill in mid-message breaks no other worker's pipe."""

    def __init__(self, prepare=None):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.tasks = collections.deque()  # sent to it; the first is being done
        self.since = time.monotonic()  # when it began the first of them
        # A daemon is told to end when this process exits by an exception.
        self.process = context.Process(target=_serve, args=(theirs, prepare), daemon=True)
        self.process.start()
        theirs.close()

    def send_task(self, task):
        if not self.tasks:
            self.since = time.monotonic()
        self.tasks.append(task)
        self.send(task.content)

    def send(self, message):
        with contextlib.suppress(OSError):  # a dead worker is noticed when it is received from
            self.connection.send(message)


class _Pool:
    def __init__(self, size, job, patience):
        self.size, self.job, self.patience = size, job, patience
        self.brief = False  # whether the last task took less than BRIEF
        self.waiting = collections.deque()  # tasks not yet sent to a worker
        self.workers = []

    def submit(self, task):
        """Send the task at once if a worker is free, while the next task is being made."""
        self.waiting.append(task)
        self._distribute()

    def _distribute(self):
        while self.waiting:
            if len(self.workers) < self.size:
                self.workers.append(_spares.pop() if _spares else _Worker())
                self.workers[-1].send(self.job)
            worker = min(self.workers, key=lambda worker: len(worker.tasks))
            if len(worker.tasks) >= (AHEAD if self.brief else 1):
                break
            worker.send_task(self.waiting.popleft())

    def work(self):
        """Receive results, and send waiting tasks."""
        busy = {worker.connection: worker for worker in self.workers if worker.tasks}
        ready = wait(busy, None if self.patience == float("inf") else self.patience)
        for connection in ready:
            self._receive(busy[connection])
        self._distribute()
        if not ready:
            self._name_slow_workers()

    def _receive(self, worker):
        try:
            state, result = worker.connection.recv()
        except (EOFError, OSError):
            self._replace(worker)
            return
        if state == UNABLE:
            raise result
        now = time.monotonic()
        self.brief, worker.since = now - worker.since < BRIEF, now
        task = worker.tasks.popleft()
        task.state, task.result = state, result

    def _replace(self, worker):
        """Give a dead worker's tasks to others; the next `_distribute` starts a new worker."""
        self.workers.remove(worker)
        worker.process.join()
        worker.connection.close()
        worker.tasks[0].tries += 1
        code = worker.process.exitcode
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        if worker.tasks[0].tries == TRIES:
            raise UserError(
                f"a worker process ended {TRIES} times at the same task, at last {how}, probably "
                "for want of memory: run the stage again with --workers 1"
            )
        say(f"worker {worker.process.pid} ended {how}, its task is done again by another")
        self.waiting.extendleft(reversed(worker.tasks))

    def _name_slow_workers(self):
        """A hanging worker cannot be told from a slow one; a person can look at it, or kill it."""
        for worker in self.workers:
            if worker.tasks:
                minutes = (time.monotonic() - worker.since) / 60
                say(
                    f"worker {worker.process.pid} has been at one task for {minutes:.0f} minutes: "
                    "if it hangs, kill it, and its task is done again"
                )


def _end(workers, grace):
    """Let idle workers leave for `grace` seconds, then send SIGTERM, and at last SIGKILL."""
    for worker in workers:
        worker.connection.close()
    _join(workers, grace)
    for worker in workers:
        worker.process.terminate()
    _join(workers, GRACE)
    for worker in workers:
        worker.process.kill()
        worker.process.join()
    workers.clear()


def _join(workers, seconds):
    deadline = time.monotonic() + seconds
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))


def _serve(connection, prepare):
    """The main function of a worker process. Its first message is the job."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    exit_when_terminated()
    sys.unraisablehook = _unless_told_to_end
    inbox = queue.SimpleQueue()
    threading.Thread(target=_fetch, args=(connection, inbox), daemon=True).start()
    try:
        _work(connection, inbox, prepare)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is ending already
    end_at_once()


def _unless_told_to_end(unraisable):
    """Print nothing when SIGTERM arrives in a callback, where Python drops its SystemExit.

    The parent has closed the pipe by then, which ends the worker after its task.
    """
    if unraisable.exc_type is not SystemExit:
        sys.__unraisablehook__(unraisable)


def _work(connection, inbox, prepare):
    try:
        if prepare:
            pickle.loads(prepare)()
        if (job := inbox.get()) is None:
            return
        function, initializer, initargs = pickle.loads(job)
        if initializer:
            initializer(*initargs)
        function = pickle.loads(function)
    except Exception as error:
        connection.send_bytes(_pack(UNABLE, error))
        return
    while (task := inbox.get()) is not None:
        try:
            message = pickle.dumps((DONE, function(pickle.loads(task))))
        except Exception as error:
            message = _pack(FAILED, error)
        try:
            connection.send_bytes(message)
        except BrokenPipeError:
            return


def _fetch(connection, inbox):
    """Receive tasks in a thread: if both ends of a pipe sent at once, both would block."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            inbox.put(connection.recv_bytes())
    inbox.put(None)


def _pack(what, error):
    """An exception as a message, with its traceback as a note."""
    error.add_note("".join(traceback.format_exception(error)).rstrip())
    try:
        message = pickle.dumps((what, error))
        pickle.loads(message)  # not every exception can be made again
        return message
    except Exception:  # the exception's class can raise anything here; send its traceback
        return pickle.dumps((what, RuntimeError("\n".join(error.__notes__))))


def _end_with_parent():
    """End at once when the parent is killed; a busy worker would not notice it."""
    multiprocessing.parent_process().join()
    os._exit(1)
