import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from solar_tf import provenance

ROOT = Path(__file__).parent.parent


def test_the_machine_is_described():
    on = provenance.machine()
    assert on["cores"] == len(os.sched_getaffinity(0))
    assert on["versions"]["numpy"]
    assert {"cpu", "memory_gb", "load", "python", "commit", "date"} <= on.keys()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_the_commit_is_that_of_the_checkout():
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    assert head.stdout.startswith(provenance.commit().removesuffix("-dirty"))


def test_an_installation_inside_a_foreign_repository_has_no_commit(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    package = tmp_path / "solar_tf"
    package.mkdir()
    for name in ("__init__.py", "provenance.py"):
        shutil.copy(ROOT / "solar_tf" / name, package)
    code = "from solar_tf import provenance; print(provenance.commit(), provenance.HERE)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout.split() == ["None", str(package)]
