"""Tasks spread over processes, with bounded memory, whatever happens to a process."""

import collections
import itertools
import multiprocessing
import os
import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from solar_tf.errors import UserError

TRIES = 3  # of a task whose process died


def run_tasks(function, tasks, workers, initializer=None, initargs=()):
    """Yield `function(task)` of every task, in order.

    At most a few tasks per worker are taken from `tasks` ahead of the results. Workers are
    spawned, so they share no state with a TensorFlow in this process; with one worker the
    tasks run in this process. A worker that dies (out of memory, say) is replaced and its
    tasks are done again.
    """
    tasks = iter(tasks)
    if workers == 1:
        if initializer:
            initializer(*initargs)
        yield from map(function, tasks)
        return

    def start():
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(workers, context, _start_worker, (initializer, initargs))

    executor = start()
    pending = collections.deque()  # of [task, future, tries]
    complete = False
    try:
        while True:
            for task in itertools.islice(tasks, 2 * workers - len(pending)):
                pending.append([task, _submit(executor, function, task), 1])
            if not pending:
                complete = True
                return
            task, future, tries = pending[0]
            try:
                result = future.result() if future else _broken()
            except BrokenProcessPool:
                if tries == TRIES:
                    raise UserError(
                        f"a worker process was killed {TRIES} times at the same task, probably "
                        "for want of memory: run the stage again with --workers 1"
                    )
                executor.shutdown(wait=True, cancel_futures=True)
                executor = start()
                for entry in pending:
                    if entry[1] is None or not _succeeded(entry[1]):
                        entry[1] = _submit(executor, function, entry[0])
                pending[0][2] += 1
                continue
            pending.popleft()
            yield result
    finally:
        if not complete:  # nobody waits for what the workers are doing
            for process in list((executor._processes or {}).values()):
                process.terminate()
        executor.shutdown(wait=True, cancel_futures=True)


def _start_worker(initializer, initargs):
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to answer
    # An exception ends the task, so that it cleans up what it was writing.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    if initializer:
        initializer(*initargs)


def _end_with_parent():
    """An executor's workers would wait for ever for a parent that was killed."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _submit(executor, function, task):
    try:
        return executor.submit(function, task)
    except BrokenProcessPool:
        return None  # the next look at its result starts a new pool


def _broken():
    raise BrokenProcessPool


def _succeeded(future):
    return future.done() and not future.cancelled() and future.exception() is None


def available_memory():
    """Bytes of memory that are free for use now."""
    with open("/proc/meminfo", encoding="ascii") as file:
        facts = dict(line.split(":") for line in file)
    return int(facts["MemAvailable"].split()[0]) * 1024
