"""Tasks spread over processes, with bounded memory, whatever happens to a process."""

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
from multiprocessing.connection import wait

from solar_tf.errors import UserError
from solar_tf.runtime.console import say
from solar_tf.runtime.process import end_at_once, exit_when_terminated

TRIES = 3  # of a task whose process died
AHEAD = 2  # tasks taken for each worker: the one it does, and the next
BRIEF = 1.0  # seconds; a worker is sent the next of longer tasks only when it is free
GRACE = 30.0  # seconds that a worker has for cleaning up when it is told to end
PATIENCE = 600.0  # seconds without a result before a person is told
DONE, FAILED, UNABLE = "done", "failed", "unable to start"  # what a worker has to say


def run_tasks(function, tasks, workers, initializer=None, initargs=(), patience=PATIENCE):
    """Yield `function(task)` of every task, in order.

    At most a few tasks per worker are taken from `tasks` ahead of the results. Workers are
    spawned, so they share no state with a TensorFlow in this process; with one worker the
    tasks run in this process. A worker that dies (out of memory, say) is replaced and its
    tasks are done again. One that hangs is left alone, but named every `patience` seconds.

    `workers` is their number, or a `distributed.Cluster`, which has its own on other machines.
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
            for task in itertools.islice(tasks, AHEAD * workers - len(pending)):
                pending.append(_Entry(task))
                pool.submit(pending[-1])
            if not pending:
                break
            while not pending[0].what:
                pool.work()
            yield pending.popleft().outcome()
        _end(pool.workers, GRACE)
    finally:
        _end(pool.workers, 0)


class _Entry:
    """A task on its way."""

    def __init__(self, task):
        self.task, self.tries, self.what, self.value = task, 0, None, None

    def finish(self, what, value):
        self.what, self.value = what, value

    def outcome(self):
        if self.what == FAILED:
            raise self.value
        return self.value


_spares = []  # workers without a job


@contextlib.contextmanager
def started_ahead(count, prepare):
    """Start workers before there is a job for them; `run_tasks` takes them before new ones.

    Each calls `prepare()` meanwhile, which loads what the job will need. Those that no job took
    end with the context.
    """
    # Pickled by itself: its modules are loaded when the worker has set up its signals.
    prepare = pickle.dumps(prepare)
    _spares.extend(_Worker(prepare) for _ in range(count if count > 1 else 0))
    try:
        yield
    finally:
        _end(_spares, 0)


class _Worker:
    """A process and its own pipe: the message that a killed process breaks off ends there."""

    def __init__(self, prepare=None):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.entries = collections.deque()  # what it was sent
        self.since = time.monotonic()  # when it began the first of them
        # As daemons they are told to end when this process exits by an exception.
        self.process = context.Process(target=_serve, args=(theirs, prepare), daemon=True)
        self.process.start()
        theirs.close()

    def send_task(self, entry):
        if not self.entries:
            self.since = time.monotonic()
        self.entries.append(entry)
        self.send(entry.task)

    def send(self, message):
        with contextlib.suppress(OSError):  # it is dead, which receiving will show
            self.connection.send(message)


class _Pool:
    def __init__(self, size, job, patience):
        self.size, self.job, self.patience = size, job, patience
        self.brief = False  # whether tasks take so little time that waiting for one would show
        self.waiting = collections.deque()  # entries that no worker has
        self.workers = []

    def submit(self, entry):
        """A worker begins at once, while the next task is still in the making."""
        self.waiting.append(entry)
        self._distribute()

    def _distribute(self):
        while self.waiting:
            if len(self.workers) < self.size:
                self.workers.append(_spares.pop() if _spares else _Worker())
                self.workers[-1].send(self.job)
            worker = min(self.workers, key=lambda worker: len(worker.entries))
            if len(worker.entries) >= (AHEAD if self.brief else 1):
                break
            worker.send_task(self.waiting.popleft())

    def work(self):
        """Take what the workers have done, and give them what waits."""
        busy = {worker.connection: worker for worker in self.workers if worker.entries}
        ready = wait(busy, None if self.patience == float("inf") else self.patience)
        for connection in ready:
            self._receive(busy[connection])
        self._distribute()
        if not ready:
            self._report()

    def _receive(self, worker):
        try:
            what, value = worker.connection.recv()
        except (EOFError, OSError):
            self._replace(worker)
            return
        if what == UNABLE:
            raise value
        now = time.monotonic()
        self.brief, worker.since = now - worker.since < BRIEF, now
        worker.entries.popleft().finish(what, value)

    def _replace(self, worker):
        self.workers.remove(worker)
        worker.process.join()
        worker.connection.close()
        worker.entries[0].tries += 1
        code = worker.process.exitcode
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        if worker.entries[0].tries == TRIES:
            raise UserError(
                f"a worker process ended {TRIES} times at the same task, at last {how}, probably "
                "for want of memory: run the stage again with --workers 1"
            )
        say(f"worker {worker.process.pid} ended {how}, its task is done again by another")
        self.waiting.extendleft(reversed(worker.entries))

    def _report(self):
        """Nothing can be known of a process that hangs; a person can look at it, or end it."""
        for worker in self.workers:
            if worker.entries:
                minutes = (time.monotonic() - worker.since) / 60
                say(
                    f"worker {worker.process.pid} has been at one task for {minutes:.0f} minutes: "
                    "if it hangs, kill it, and its task is done again"
                )


def _end(workers, grace):
    """Let the idle workers leave, then tell them to; who does not obey is killed."""
    for worker in workers:
        worker.connection.close()
    deadline = time.monotonic() + grace
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))
    for worker in workers:
        worker.process.terminate()
    deadline = time.monotonic() + GRACE
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
    workers.clear()


def _serve(connection, prepare):
    """The life of a worker, whose first message is its job."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to answer
    exit_when_terminated()
    sys.unraisablehook = _unless_told_to_end
    inbox = queue.SimpleQueue()
    threading.Thread(target=_fetch, args=(connection, inbox), daemon=True).start()
    try:
        _work(connection, inbox, prepare)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is leaving
    end_at_once()


def _unless_told_to_end(unraisable):
    """Nothing to tell a person when the order came in a callback, where Python drops it.

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
    """Take the tasks as they come: with both ends of a pipe sending, neither would get on."""
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
    except Exception:  # whatever its class makes of being pickled; the traceback arrives anyway
        return pickle.dumps((what, RuntimeError("\n".join(error.__notes__))))


def _end_with_parent():
    """A worker at work would not notice that its parent was killed."""
    multiprocessing.parent_process().join()
    os._exit(1)
