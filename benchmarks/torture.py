"""Kill every stage at its writes, renames and fsyncs, and at random; restart it; compare.

    python benchmarks/torture.py             all points, about 20 minutes of two cores
    python benchmarks/torture.py --quick     a sample, as the tests run it

Every point starts from the state before the stage, is killed (SIGKILL, or SIGTERM, which has to
leave nothing behind), has its run directory checked, is started again, and must end with the same
content as an unbroken run, byte for byte but for measured times. The clock of every process jumps
by years, back and forth. A moment is a call of a function that changes files (faults.py); a
write can also be torn, that is killed when half of it is on the disk. Processes are forked from
this one, which has TensorFlow loaded, but not started; some are the real programs, fresh.
"""

import argparse
import collections
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
from faults import Faults

ROOT = Path(__file__).parent.parent
FAULT = "SOLAR_TORTURE"  # environment of the spawned workers of a stage: a fault as JSON
SETTINGS = {
    "num_chunks": 2, "num_buckets": 12, "feature_dim": 40, "hidden_dim": 8, "batch_size": 25,
    "epochs": 2, "learning_rate": 1e-2, "dropout": 0.2, "weighting": "tfidf", "decay": "linear",
    "bias_start": "log_odds", "seed": 3,
}  # fmt: skip
VARIES = re.compile(r"ms_.*|.*seconds?|files|checksum")  # keys of times, and of what holds them


if FAULT in os.environ and __name__ == "__mp_main__":  # a worker of a stage
    Faults(json.loads(os.environ[FAULT])["at"], group=True).install()


# Stages.


def write_data(folder, num_train=300, num_test=60, num_labels=20):
    generator = random.Random(0)
    folder.mkdir()
    for split, rows in (("train", num_train), ("test", num_test)):
        with open(folder / f"{split}.txt", "w") as file:
            for _ in range(rows):
                labels = sorted(generator.sample(range(num_labels), 2))
                words = [f"topic{label}" for label in labels] + [f"noise{generator.randrange(9)}"]
                file.write(f"{','.join(map(str, labels))}\t{' '.join(words)}\n")
    (folder / "labels.txt").write_text("".join(f"about topic{i}\n" for i in range(num_labels)))


class Stages:
    """The three stages on small data, each as a function of the run directory and workers."""

    def __init__(self, data):
        from solar_tf.config import SolarConfig
        from solar_tf.datasets import source
        from solar_tf.datasets.dataset import open_files
        from solar_tf.operations.check import check
        from solar_tf.preprocessing import stage as preprocessing
        from solar_tf.retrieval import evaluation
        from solar_tf.run.records import encode
        from solar_tf.training import stage as training

        # Small enough for several shards, several checkpoints of an epoch and several blocks.
        source.ROWS_PER_BLOCK = 100
        evaluation.BATCH_SIZE = 40
        names = ("train", "test", "labels")
        config = SolarConfig(**SETTINGS)
        encode({"ids": ([0, 1], [1]), "values": ([0, 1], [1.0])})  # compiled before any fork

        def preprocess(root, workers):
            dataset = open_files(*(data / f"{name}.txt" for name in names))
            preprocessing.preprocess(root, dataset, config, workers)

        def train(root, workers):
            training.train(root, trainers=workers, checkpoint_minutes=0)

        def infer(root, workers):
            evaluation.infer(root, top_buckets=(7, 3), workers=workers, scratch_bytes=1)

        self.functions = {"preprocess": preprocess, "train": train, "infer": infer}
        self.check = check
        files = [f"--{name}={data}/{name}.txt" for name in names]
        hyper = [f"--{name}={value}" for name, value in SETTINGS.items()]
        self.flags = {
            "preprocess": [*files, *hyper, "--workers=1"],
            "train": ["--checkpoint_minutes=0", "--trainers=1"],
            "infer": ["--top_buckets=7,3", "--workers=1"],
        }


class Torturer:
    def __init__(self, folder, seed=0):
        self.folder, self.random = folder, random.Random(seed)
        self.log = folder / "log"
        write_data(folder / "data")
        self.stages = Stages(folder / "data")
        self.counts = collections.Counter()  # of points by stage, signal and kind
        self.kills, self.failures = 0, []
        self.before, self.expected, self.moments = {}, {}, {}
        self.seconds = {}  # of unbroken stages, and of the real programs

    # Processes.

    def start(self, stage, root, workers=1, faults=None):
        """Fork a process that runs a stage; returns its id, which is also its group's."""
        process = os.fork()
        if process:
            return process
        code = 1
        try:
            os.setsid()
            sys.stdout = sys.stderr = open(self.log, "w")
            os.dup2(sys.stdout.fileno(), 1)
            os.dup2(sys.stdout.fileno(), 2)
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
            faults = faults or Faults()
            if faults.group:
                os.environ[FAULT] = json.dumps({"at": faults.at})
            else:
                faults.install()
            try:
                self.stages.functions[stage](root, workers)
                code = 0
            except SystemExit as error:
                code = error.code
            (self.folder / "moments").write_text(json.dumps(faults.moments))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)

    def wait(self, process):
        """The exit code of a process, negative for a signal."""
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    def run(self, stage, root, **options):
        return self.wait(self.start(stage, root, **options))

    # Comparing.

    def content(self, root):
        """All files of a run by name, without what is measured."""
        found = {}
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.suffix != ".lock" and path.name != "verified.json":
                found[str(path.relative_to(root))] = _plain(path)
        return found

    def compare(self, name, stage, root):
        found = self.content(root)
        wrong = {key for key in {*found, *self.expected[stage]}
                 if found.get(key) != self.expected[stage].get(key)}  # fmt: skip
        if wrong:
            self.fail(name, f"differs in {', '.join(sorted(wrong)[:5])}", root)

    def sound(self, name, root):
        """Nothing under a final name is damaged, however the process ended."""
        from solar_tf.errors import UserError

        try:
            problems = self.stages.check(root).problems
        except UserError as error:
            problems = [str(error)]
        for problem in problems:
            if "not complete" not in problem and "no run here" not in problem:
                self.fail(name, f"after the kill: {problem}", root)

    def fail(self, name, what, root):
        log = self.log.read_text()[-2000:] if self.log.exists() else ""
        self.failures.append(f"{name}: {what}")
        print(f"FAILED {name}: {what}\n{log}", flush=True)
        with contextlib.suppress(FileExistsError):
            shutil.copytree(root, self.folder / f"failed_{len(self.failures)}")

    # Points.

    def prepare(self, stage, previous):
        """The unbroken run of a stage: its content, its moments and its time."""
        root = self.folder / f"whole_{stage}"
        if previous:
            shutil.copytree(self.folder / f"whole_{previous}", root)
        self.before[stage] = previous
        began = time.monotonic()
        if code := self.run(stage, root):
            raise SystemExit(f"{stage} fails unbroken ({code}):\n{self.log.read_text()}")
        self.seconds[stage] = time.monotonic() - began
        self.moments[stage] = json.loads((self.folder / "moments").read_text())
        self.expected[stage] = self.content(root)

    def same_again(self, stage, workers):
        """Unbroken, with one worker and with several."""
        root = self.fresh(stage)
        self.finish(f"{stage}, unbroken, {workers} workers", stage, root, workers)

    def fresh(self, stage):
        root = self.folder / "run"
        shutil.rmtree(root, ignore_errors=True)
        if self.before[stage]:
            shutil.copytree(self.folder / f"whole_{self.before[stage]}", root)
        return root

    def finish(self, name, stage, root, workers=1):
        """Start the killed stage again, unharmed, and compare."""
        self.sound(name, root)
        if code := self.run(stage, root, workers=workers):
            self.fail(name, f"ends with {code} when it is started again", root)
        else:
            self.compare(name, stage, root)

    def count(self, stage, number, kind):
        self.counts[f"{stage}.py", number.name, kind] += 1
        self.kills += 1

    def point(self, stage, at, number):
        """Killed at one moment, by its number."""
        root, kind = self.fresh(stage), self.moments[stage][at - 1]
        name = f"{stage}, {number.name} at moment {at} ({kind})"
        code = self.run(stage, root, faults=Faults(at, number))
        expected = -signal.SIGKILL if number == signal.SIGKILL else 128 + signal.SIGTERM
        if code != expected:
            self.fail(name, f"ended with {code} instead of {expected}", root)
        if number == signal.SIGTERM and (left := [*root.rglob("*.tmp")]):
            self.fail(name, f"left {left}", root)
        self.count(stage, number, kind)
        self.finish(name, stage, root)

    def again_and_again(self, stage):
        """Killed, and killed again on the way back, up to four times."""
        root = self.fresh(stage)
        for kill in range(4):
            at = self.random.randrange(1, len(self.moments[stage]) + 1)
            name = f"{stage}, kill {kill} in a row, at moment {at}"
            if self.run(stage, root, faults=Faults(at)) == 0:
                break
            self.count(stage, signal.SIGKILL, "again on the way back")
            self.sound(name, root)
        self.finish(name, stage, root)

    def random_time(self, stage, number, workers=1):
        """Killed from outside at some time, with all its workers or alone."""
        for most in _shorter_and_shorter(self.seconds[stage]):
            root = self.fresh(stage)
            process = self.start(stage, root, workers)
            time.sleep(self.random.uniform(0, most))
            if not os.waitpid(process, os.WNOHANG)[0]:
                break
        os.kill(process, number)
        self.wait(process)
        name = f"{stage}, {number.name} at a random time, {workers} workers"
        if number == signal.SIGTERM and (left := [*root.rglob("*.tmp")]):
            self.fail(name, f"left {left}", root)
        self.count(stage, number, f"random time, {workers} workers")
        self.finish(name, stage, root, workers)  # beside workers that may not have noticed yet
        deadline = time.monotonic() + 10
        while _group_lives(process) and time.monotonic() < deadline:
            time.sleep(0.1)
        if _group_lives(process):
            self.fail(name, "its workers live on", root)
            os.killpg(process, signal.SIGKILL)

    def in_worker(self, stage, at):
        """Killed with all its group when a worker, not the parent, reaches a moment."""
        root = self.fresh(stage)
        if self.run(stage, root, workers=2, faults=Faults(at, group=True)) == 0:
            return
        self.count(stage, signal.SIGKILL, "write, rename or fsync of a worker")
        self.finish(f"{stage}, in a worker at moment {at}", stage, root, workers=2)

    def crowd(self, stage, size=3):
        """Several processes on one run, each killed now and then, until all of them succeed."""
        root, alive = self.fresh(stage), []
        for _ in range(4):
            alive += [self.start(stage, root) for _ in range(size - len(alive))]
            time.sleep(self.random.uniform(0.2, self.seconds[stage]))
            victim = alive.pop(self.random.randrange(len(alive)))
            if not os.waitpid(victim, os.WNOHANG)[0]:
                os.kill(victim, signal.SIGKILL)
                self.wait(victim)
                self.count(stage, signal.SIGKILL, f"one of {size} at once")
        for process in alive:
            self.wait(process)
        self.finish(f"{stage}, {size} at once", stage, root)

    def program(self, stage, number):
        """The real program, started afresh, killed at a random time."""
        root = self.fresh(stage)
        command = [sys.executable, ROOT / stage / f"{stage}.py", "--run", root]
        command += self.stages.flags[stage]
        env = os.environ | {"PYTHONPATH": str(ROOT)}

        def start():
            with open(self.log, "w") as log:
                return subprocess.Popen(command, stdout=log, stderr=log, env=env)

        if f"{stage}.py" not in self.seconds:
            began = time.monotonic()
            if start().wait():
                raise SystemExit(f"{stage}.py fails unbroken:\n{self.log.read_text()}")
            self.seconds[f"{stage}.py"] = time.monotonic() - began
            self.expected[f"{stage}.py"] = self.content(root)
        for most in _shorter_and_shorter(self.seconds[f"{stage}.py"]):
            root = self.fresh(stage)
            process = start()
            time.sleep(self.random.uniform(0.5, 1) * most)
            if process.poll() is None:
                break
        process.send_signal(number)
        process.wait()
        self.count(stage, number, "random time, the real program")
        name = f"{stage}.py, {number.name}"
        self.sound(name, root)
        if code := start().wait():
            self.fail(name, f"ends with {code} when it is started again", root)
        else:
            self.compare(name, f"{stage}.py", root)


def _shorter_and_shorter(seconds):
    """Times in which to catch a process alive: it may be faster today than when it was timed."""
    while True:
        yield seconds
        seconds *= 0.8


def _group_lives(process):
    try:
        os.killpg(process, 0)
    except ProcessLookupError:
        return False
    return True


def _plain(path):
    """What a file says, but for the times it took."""
    if path.name in ("history.json", "state.json") or path.name.startswith("metrics"):
        return json.loads(
            path.read_text(),
            object_hook=lambda found: {k: v for k, v in found.items() if not VARIES.fullmatch(k)},
        )
    if path.parent.name == "topm":
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name].tobytes() for name in arrays if name != "costs"}
    return path.read_bytes()


# Which.


def choose(moments, most, generator):
    """Numbers of moments: of each kind in turn, spread over the run, until there are enough."""
    kinds = collections.defaultdict(list)
    for at, kind in enumerate(moments, 1):
        kinds[kind].append(at)
    for places in kinds.values():
        generator.shuffle(places)
    chosen = []
    while len(chosen) < min(most, len(moments)):
        chosen += [places.pop() for places in kinds.values() if places]
    return sorted(chosen[:most])


def torture(torturer, quick):
    kill, term = signal.SIGKILL, signal.SIGTERM
    for stage, previous, most in (
        ("preprocess", None, 8 if quick else 10**9),
        ("train", "preprocess", 3 if quick else 110),
        ("infer", "train", 3 if quick else 80),
    ):
        torturer.prepare(stage, previous)
        places = choose(torturer.moments[stage], most, torturer.random)
        say(f"{stage}: {len(torturer.moments[stage])} moments, {len(places)} of them are points")
        for i, at in enumerate(places):
            # Every third is told to stop, the others get no chance to.
            torturer.point(stage, at, term if i % 3 == 2 else kill)
        if quick:
            torturer.random_time(stage, kill)
            continue
        for workers in (1, 2):
            torturer.same_again(stage, workers)
        for _ in range(4):
            torturer.again_and_again(stage)
        for i in range(12):
            torturer.random_time(stage, term if i % 3 == 2 else kill)
        for _ in range(2):
            torturer.crowd(stage)
        for i in range(4):
            torturer.program(stage, term if i % 4 == 3 else kill)
        say(f"{stage}: {torturer.kills} kills so far, {len(torturer.failures)} failures")
    if not quick:
        for at in (1, 9, 17, 33, 51, 70):
            torturer.in_worker("preprocess", at)
        for i in range(6):
            torturer.random_time("preprocess", term if i % 3 == 2 else kill, workers=2)


def say(text):
    print(text, flush=True)


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    flags.add_argument("--quick", action="store_true", help="a sample that takes a minute")
    flags.add_argument("--keep", help="folder to work in, which is kept")
    options = flags.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    sys.path.insert(0, str(ROOT))
    began, cpu = time.monotonic(), os.times()
    with contextlib.ExitStack() as stack:
        folder = options.keep or stack.enter_context(tempfile.TemporaryDirectory())
        Path(folder).mkdir(exist_ok=True)
        torturer = Torturer(Path(folder))
        torture(torturer, options.quick)
    from solar_tf.runtime.console import table

    rows = [(*key, count) for key, count in sorted(torturer.counts.items())]
    say(table(("stage", "signal", "killed at", "points"), rows))
    spent = sum(os.times()[:4]) - sum(cpu[:4])
    say(
        f"\n{torturer.kills} kills, {len(torturer.failures)} failures, "
        f"{time.monotonic() - began:.0f} s, {spent:.0f} s of CPU"
    )
    if not options.quick:
        from common import machine

        result = {"machine": machine(), "kills": torturer.kills,
                  "failures": torturer.failures, "points": rows}  # fmt: skip
        out = ROOT / "benchmarks" / "torture.json"
        out.write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(bool(torturer.failures))


if __name__ == "__main__":
    main()
