"""Tasks on a Ray cluster: `workers.run_tasks` on many machines.

Ray places the tasks, starts the processes and repeats a task whose process or machine is lost.
Repeating is safe: results are renamed into place when they are complete, and a chunk in training
is locked.
"""

import collections
import dataclasses
import itertools
import logging
import os
import pickle
import socket
import uuid

import solar_tf
from solar_tf.distributed import shared
from solar_tf.errors import UserError
from solar_tf.run.objects import url_of
from solar_tf.runtime.console import say, size

RETRIES = 5  # of a task whose process or machine was lost
AHEAD = 2  # tasks given to Ray for each one that fits into the cluster
LOOK = 5.0  # seconds between looks at the size of the cluster


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A cluster that works on a run, and what each task needs."""

    root: str  # path or URL of the run
    cpus: float = 1
    gpus: float = 0
    memory: float = 0  # bytes

    @property
    def threads(self):
        """Threads of a task's TensorFlow; None lets TensorFlow choose, for a GPU."""
        return None if self.gpus else max(1, int(self.cpus))

    def run_tasks(self, function, tasks, initializer=None, initargs=()):
        """Yield `function(task)` of every task, in order; see `workers.run_tasks`.

        Ray has AHEAD times as many tasks as fit into the cluster, which may grow.
        """
        import ray

        remote = ray.remote(_work).options(
            num_cpus=self.cpus,
            num_gpus=self.gpus,
            memory=int(self.memory) or None,
            max_retries=RETRIES,
            name=getattr(function, "__name__", None) or function.func.__name__,
        )
        number = uuid.uuid4().hex
        facts = solar_tf.__version__, shared.mark(self.root)
        # The function is pickled twice, so that the initializer runs before its modules load.
        job = ray.put(shared.dumps((facts, initializer, initargs, shared.dumps(function))))
        tasks, pending = iter(tasks), collections.deque()
        if not self._room(ray):
            say(f"no node has {self._needs()} for a task: they wait until one joins")
        try:
            while True:
                room = AHEAD * max(1, self._room(ray)) - len(pending)
                for task in itertools.islice(tasks, max(room, 0)):
                    pending.append(remote.remote(number, job, shared.dumps(task)))
                if not pending:
                    return
                ready, _ = ray.wait([pending[0]], timeout=LOOK)
                if ready:
                    yield _outcome(ray, pending.popleft())
        finally:
            for task in pending:
                ray.cancel(task, force=True)

    def _room(self, ray):
        """How many tasks fit into the cluster now."""
        wanted = {"CPU": self.cpus, "GPU": self.gpus, "memory": self.memory}
        fit = 0
        for node in ray.nodes():
            if node["Alive"]:
                have = node["Resources"]
                fit += min(int(have.get(name, 0) // need) for name, need in wanted.items() if need)
        return fit

    def _needs(self):
        needs = [f"{self.cpus:g} CPUs"]
        needs += [f"{self.gpus:g} GPUs"] if self.gpus else []
        needs += [f"{size(self.memory)} of memory"] if self.memory else []
        return " and ".join(needs)


def connect(root, address=None, cpus=1, gpus=0):
    """The Cluster at `address` for a run; without an address, Ray is started on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    try:
        import ray
    except ImportError:
        raise UserError("--launcher ray needs Ray: pip install solar-tf[ray]")
    options = {} if address else {"include_dashboard": False}
    try:
        ray.init(address=address, logging_level=logging.WARNING, **options)
    except Exception as error:
        remedy = "see that a head node runs there, and that RAY_AUTH_TOKEN is the cluster's"
        raise UserError(f"--address {address}: {_line(error)}: {remedy}")
    nodes = sum(node["Alive"] for node in ray.nodes())
    total = ray.cluster_resources()
    say(f"Ray: {nodes} nodes, {total.get('CPU', 0):g} CPUs, {total.get('GPU', 0):g} GPUs")
    return Cluster(url_of(root) or os.path.abspath(root), cpus, gpus)


def _outcome(ray, task):
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        raise error.cause
    except ray.exceptions.RayError as error:
        raise UserError(
            f"a task was lost {RETRIES + 1} times, at last: {_line(error)}: run the stage again; "
            "what is complete is kept"
        )


def _line(error):
    return str(error).strip().split("\n")[0].rstrip(".")


# In the cluster's processes.

_job = None, None  # number and function of the job that this process works on


def _work(number, job, task):
    """Do one task, and before the first one of a job what the job starts with."""
    global _job
    if _job[0] != number:
        _job = number, _start(job)
    return _job[1](pickle.loads(task))


def _start(job):
    (version, mark), initializer, initargs, function = pickle.loads(job)
    if version != solar_tf.__version__:
        raise UserError(
            f"node {socket.gethostname()} has solar-tf {solar_tf.__version__}, this program "
            f"{version}: install the same on all nodes"
        )
    if mark:
        shared.require_mark(*mark)
    if initializer:
        initializer(*initargs)
    return pickle.loads(function)
