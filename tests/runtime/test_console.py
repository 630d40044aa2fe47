import os
import pty
import re
import subprocess
import sys
import termios
import time

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from solar_tf.runtime.console import say, seconds, size, table

COUNT = """
import time
from solar_tf.runtime.console import progress, say
with progress(30, "reading", "row") as bar:
    for _ in range(30):
        time.sleep(0.05)
        bar.update(1)
    say("half-time")
"""
words = st.text("abc d-_", min_size=1, max_size=9).map(str.strip)
numbers = st.integers(-(10**6), 10**6).map("{:,}".format) | st.floats(-99, 99).map("{:.2f}".format)


def cells(line):
    assert line.startswith("| ")
    assert line.endswith(" |")
    return line[2:-2].split(" | ")


@given(st.lists(st.tuples(words, numbers), max_size=5))
def test_the_lines_of_a_table_are_of_one_width_and_its_cells_those_given(rows):
    header = ("what", "value")
    first, rule, *rest = table(header, rows).split("\n")
    assert {len(line) for line in (first, rule, *rest)} == {len(first)}
    assert re.fullmatch(r"(\|-+[-:])+\|", rule)
    found = [tuple(cell.strip() for cell in cells(line)) for line in (first, *rest)]
    assert found == [header, *rows]


def test_text_stands_left_and_numbers_right_under_their_headers():
    rows = [("full", 1000.25, "1,234"), ("m=100", -3, "-"), ("", "", "7")]
    assert table(("setting", "P@1", "n"), rows).split("\n") == [
        "| setting |     P@1 |     n |",
        "|---------|--------:|------:|",
        "| full    | 1000.25 | 1,234 |",
        "| m=100   |      -3 |     - |",
        "|         |         |     7 |",
    ]


def test_one_word_makes_a_column_text():
    assert table(("k",), [(5,), ("all",)]).split("\n")[2:] == ["| 5   |", "| all |"]


def test_a_table_without_rows_is_its_header():
    assert table(("chunk", "loss"), []) == "| chunk | loss |\n|-------|------|"


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError):
        table(("a", "b"), [(1,)])


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        (seconds, 0, "0.0 s"),
        (seconds, 0.26, "0.3 s"),
        (seconds, 9.94, "9.9 s"),
        (seconds, 9.96, "10 s"),
        (seconds, 48.4, "48 s"),
        (seconds, 59.7, "1 min 0 s"),
        (seconds, 370, "6 min 10 s"),
        (seconds, 3599.6, "1 h 0 min"),
        (seconds, 7500, "2 h 5 min"),
        (seconds, 200_000, "55 h 33 min"),
        (size, 0, "0 B"),
        (size, 999, "999 B"),
        (size, 1000, "1 kB"),
        (size, 1234, "1.23 kB"),
        (size, 999_600, "1 MB"),
        (size, 5_670_000, "5.67 MB"),
        (size, 400e9, "400 GB"),
        (size, 2e15, "2e+03 TB"),
    ],
)
def test_durations_and_sizes_are_said_in_the_units_people_use(function, value, text):
    assert function(value) == text


def test_what_is_said_reaches_a_pipe_at_once(capfd):
    say("a line")
    assert capfd.readouterr() == ("a line\n", "")


def test_progress_is_silent_where_nobody_watches():
    done = subprocess.run(
        [sys.executable, "-c", COUNT], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert (done.stdout, done.stderr) == ("half-time\n", "")


def test_progress_draws_on_a_terminal_and_leaves_no_bar_behind():
    terminal, child_side = pty.openpty()
    termios.tcsetwinsize(child_side, (24, 80))
    child = subprocess.Popen(
        [sys.executable, "-c", COUNT], stdout=subprocess.PIPE, stderr=child_side, cwd=ROOT
    )
    os.close(child_side)
    drawn, deadline = b"", time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            drawn += os.read(terminal, 4096)
        except OSError:  # the child has closed its side
            break
    os.close(terminal)
    assert child.communicate()[0] == b"half-time\n"
    assert child.returncode == 0
    assert b"reading" in drawn
    assert b"row/s" in drawn
    assert drawn.split(b"\r")[-1].strip() == b""
