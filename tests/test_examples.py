"""The programs under examples/, run as their docstrings say."""

import os
import re
import subprocess
import sys

from conftest import ROOT


def output_of(name):
    """What a program prints. Its processes have ended too: they share its pipes."""
    command = [sys.executable, f"examples/{name}.py"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_short_and_says_how_to_run_it():
    paths = sorted((ROOT / "examples").glob("*.py"))
    assert len(paths) == 3
    for path in paths:
        text = path.read_text()
        assert f"    python examples/{path.name}" in text
        assert text.count("\n") < 60


def test_titles_are_found_by_their_department_and_material():
    answers = re.split(r"^(?=\S)", output_of("search_titles"), flags=re.MULTILINE)[1:]
    best = {lines.split("\n")[0]: re.findall(r"\d  (.*)", lines)[:2] for lines in answers}
    assert {*best["a chair of oak"]} == {"furniture", "made of oak"}
    assert {*best["a warm wool scarf"]} == {"clothing", "made of wool"}
    assert best["shirt"][0] == "clothing"


def test_files_of_the_xml_repository_become_a_table():
    rows = [line.strip("|").split("|") for line in output_of("xml_repo_table").splitlines()[-3:]]
    assert [row[0].strip() for row in rows] == ["full", "m=20", "m=5"]
    assert all(float(row[1]) > 90 for row in rows)


def test_labels_added_to_a_served_run_are_found():
    before, added, after = output_of("serve_and_add_labels").splitlines()
    assert before.startswith("brick: building") and "houses" not in before
    assert added == "added labels [3, 4]"
    assert "brick houses" in after
