import dataclasses
import functools
import json
import os
import signal
import subprocess
import sys

import pytest
from conftest import environment
from hypothesis import given
from hypothesis import strategies as st

from solar_tf.cli.stages import parse_chunks, parse_numbers
from solar_tf.config import CHOICES, SolarConfig
from solar_tf.errors import UserError

PROGRAM = '''
"""What a stage does for its user."""
import json, os, signal, sys
from absl import flags
from solar_tf.cli import stages
from solar_tf.runtime import devices
from solar_tf.errors import UserError
from solar_tf.run.files import atomic_write

stages.define_run_flag()
stages.define_config_flags()

def main():
{body}

if __name__ == "__main__":
    stages.run_stage(main)
'''


def program(folder, body):
    path = folder / "stage.py"
    path.write_text(PROGRAM.format(body="".join(f"    {line}\n" for line in body.split("\n"))))
    return path


def start(path, *arguments, **env):
    env = environment(env)
    return subprocess.Popen(
        [sys.executable, path, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in env.items() if not name.startswith("TF_")},
        # Tests that run in the background would hand their ignored Ctrl-C on.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def run(path, *arguments, **env):
    """Exit code, stdout and stderr of a program."""
    with start(path, *arguments, **env) as process:
        out, err = process.communicate(timeout=120)
    return process.returncode, out, err


# Flags.


def test_flags_give_the_hyper_parameters_that_were_named_and_no_others(tmp_path):
    path = program(tmp_path, "print(json.dumps(stages.config_flags()))")
    some = {"epochs": 3, "dropout": 0.5, "weighting": "tfidf", "learning_rate": 1.0}
    for named in (some, SolarConfig().to_dict()):
        code, out, err = run(path, *(f"--{name}={value}" for name, value in named.items()))
        assert (code, err, json.loads(out)) == (0, "", named)


def test_help_has_every_flag_with_its_meaning_and_source(tmp_path):
    _, out, _ = run(program(tmp_path, "pass"), "--help")
    text = " ".join(out.split())
    assert "What a stage does for its user." in text
    assert "--run: The run directory" in text
    for field in dataclasses.fields(SolarConfig):
        choices = f"<{'|'.join(CHOICES[field.name])}>: " if field.name in CHOICES else ""
        meaning = f"{choices}{field.metadata['help']} [{field.metadata['source']};"
        assert f"--{field.name}: {meaning}" in text


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        ("--epoch_s=3", "epoch_s"),
        ("--epochs=ten", "ten"),
        ("--decay=cosine", "none|linear"),
        ("ten", "error: 'ten' is not a flag: see stage.py --help"),
    ],
)
def test_what_is_no_flag_ends_with_code_1_before_anything_is_done(tmp_path, argument, complaint):
    code, out, err = run(program(tmp_path, "print('at work')"), argument)
    assert (code, out) == (1, "")
    assert complaint in err
    assert "Traceback" not in err


# How a stage ends.


def test_an_error_that_the_user_can_mend_is_one_line_and_code_1(tmp_path):
    body = "raise UserError('train.txt:17: no tab: write labels<TAB>text')"
    line = "error: train.txt:17: no tab: write labels<TAB>text\n"
    assert run(program(tmp_path, body)) == (1, "", line)


def test_an_error_of_the_program_keeps_its_traceback(tmp_path):
    code, _, err = run(program(tmp_path, "{}['key']"))
    assert code == 1
    assert "Traceback" in err and "KeyError" in err


WRITE_AND_WAIT = """
with atomic_write(sys.argv[0] + ".result") as file:
    file.write(b"half")
    file.flush()
    print("ready", flush=True)
    while True:
        signal.pause()
"""


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGTERM, 143, ""),
        (signal.SIGINT, 130, "error: interrupted: run the same command again to go on\n"),
    ],
)
def test_a_stage_that_is_told_to_stop_cleans_up(tmp_path, number, code, message):
    with start(program(tmp_path, WRITE_AND_WAIT)) as process:
        assert process.stdout.readline() == "ready\n"
        assert len(list(tmp_path.iterdir())) == 2  # it is writing
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (code, message)
    assert [path.name for path in tmp_path.iterdir()] == ["stage.py"]


# Lists.


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        (None, None),
        ("3", [3]),
        ("0-3", [0, 1, 2, 3]),
        ("5-5", [5]),
        ("0,2,5-7", [0, 2, 5, 6, 7]),
        (" 7 , 1-2,2", [1, 2, 7]),
    ],
)
def test_chunks_are_numbers_and_ranges_in_order(text, chunks):
    assert parse_chunks(text) == chunks


@given(st.sets(st.integers(0, 99_999), min_size=1))
def test_chunks_written_out_are_those_read(chunks):
    assert parse_chunks(",".join(map(str, chunks))) == sorted(chunks)


@pytest.mark.parametrize(
    "text", ["", "a", "1,", "-1", "1-", "1--3", "1.5", "1;2", "²", "0-9999999999", "1,3-2"]
)
def test_other_chunks_are_an_error_that_shows_how_to_write_them(text):
    how = "write it as 3, 0-3 or 0,2,5" if text != "1,3-2" else "3-2 ends before it begins"
    with pytest.raises(UserError, match=rf"^--chunks {text}: {how}$"):
        parse_chunks(text)


@pytest.mark.parametrize("words", [[], [""], ["0"], ["-3"], ["1.5"], ["ten"], ["5", ""], ["²"]])
def test_numbers_are_whole_above_zero_and_keep_their_order(words):
    assert parse_numbers("top_buckets", ["100", " 25", "50"]) == [100, 25, 50]
    with pytest.raises(UserError, match=r"^--top_buckets .*: give whole numbers above 0"):
        parse_numbers("top_buckets", words)


# The GPU.

USE_GPU = """
import importlib.abc

class Spy(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name == "tensorflow":
            print("seen by TensorFlow:", os.environ.get("CUDA_VISIBLE_DEVICES"))

sys.meta_path.insert(0, Spy())
print(devices.use_gpu(7))
import tensorflow as tf
tf.constant(1) + tf.constant(2)
"""


def test_without_the_gpu_the_cpu_is_used_and_said_aloud_and_nothing_else(tmp_path):
    path = program(tmp_path, USE_GPU)
    code, out, err = run(path, CUDA_VISIBLE_DEVICES="0,1")
    assert code == 0
    seen, said, device = out.splitlines()
    assert seen == "seen by TensorFlow: 7"
    if device == "CPU":
        assert said == f"no GPU 7 here: training on the CPU, {os.cpu_count()} cores"
        assert err == ""
    else:
        assert (said, device) == ("training on GPU 7", "GPU")


def test_a_gpu_chosen_after_tensorflow_is_loaded_is_refused(tmp_path):
    (tmp_path / "tensorflow.py").touch()  # as good as the real one, and faster
    code, out, err = run(program(tmp_path, "import tensorflow\ndevices.use_gpu(0)"))
    assert (code, out) == (1, "")
    assert "RuntimeError: TensorFlow is loaded already" in err


def test_what_tensorflow_says_while_it_fails_to_load_is_not_lost(tmp_path):
    broken = "import os\nos.write(2, b'no such libcuda')\nraise ImportError('broken')\n"
    (tmp_path / "tensorflow.py").write_text(broken)
    code, _, err = run(program(tmp_path, "devices.load_tensorflow()"))
    assert code == 1
    assert "no such libcuda" in err
    assert "ImportError: broken" in err


MANY_LINES = """
from solar_tf.runtime.console import say
for line in range(100_000):
    say(f"line {line}")
with open(sys.argv[0] + ".result", "w") as file:
    file.write("done")
"""


@pytest.mark.parametrize("body", [MANY_LINES, "print('x' * 10)"], ids=["many lines", "last words"])
def test_a_reader_that_has_seen_enough_is_no_error(tmp_path, body):
    path = program(tmp_path, body)
    command = f"{sys.executable} {path} | {sys.executable} -c 'import sys; sys.stdin.close()'"
    command = ["bash", "-c", command + "; exit ${PIPESTATUS[0]}"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.stderr == ""
    ended = {128 + signal.SIGPIPE}
    assert done.returncode in (ended if body == MANY_LINES else {0, *ended})  # it may be faster
    assert not path.with_name("stage.py.result").exists()


def test_a_stage_takes_the_path_of_a_file_url_and_leaves_others_as_they_are(tmp_path):
    path = program(tmp_path, "print(flags.FLAGS.run)")
    for written, taken in (
        ("runs/a", "runs/a"),
        ("file:///shared/my%20run", "/shared/my run"),
        ("s3://bucket/run", "s3://bucket/run"),
    ):
        assert run(path, "--run", written) == (0, f"{taken}\n", "")
    code, _, err = run(path, "--run", "file://host/run")
    assert code == 1
    assert err == "error: --run file://host/run: a file URL has three slashes, file:///folder\n"
