import os
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

from solar_tf.runtime import provenance


def test_the_machine_is_described():
    on = provenance.machine()
    assert on["cores"] == len(os.sched_getaffinity(0))
    assert on["versions"]["numpy"]
    assert {"cpu", "memory_gb", "load", "python", "commit", "date"} <= on.keys()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_the_commit_is_that_of_the_checkout():
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    assert head.stdout.startswith(provenance.commit().removesuffix("-dirty"))


@pytest.fixture
def copy(tmp_path):
    """A repository with a copy of the module, not yet added to it."""
    git(tmp_path, "init", "-q")
    (tmp_path / "solar_tf" / "runtime").mkdir(parents=True)
    for name in ("__init__.py", "runtime/__init__.py", "runtime/provenance.py"):
        shutil.copy(ROOT / "solar_tf" / name, tmp_path / "solar_tf" / name)
    return tmp_path


def git(folder, *arguments):
    person = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(
        ["git", *person, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit_of(folder):
    code = "from solar_tf.runtime import provenance; print(provenance.commit(), provenance.HERE)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(folder)},
    )  # fmt: skip
    commit, package = done.stdout.split()
    assert package == str(folder / "solar_tf" / "runtime")
    return commit


def test_an_installation_inside_a_foreign_repository_has_no_commit(copy):
    assert commit_of(copy) == "None"


def test_changed_code_is_dirty_and_changed_results_are_not(copy):
    (copy / "results.json").write_text("{}")
    git(copy, "add", ".")
    git(copy, "commit", "-qm", "all")
    head = git(copy, "rev-parse", "--short", "HEAD")
    (copy / "results.json").write_text("[]")
    assert commit_of(copy) == head
    with open(copy / "solar_tf" / "__init__.py", "a") as file:
        file.write("\n")
    assert commit_of(copy) == f"{head}-dirty"
