"""The job files of docs/cluster: they parse, their flags exist, and Slurm's task really trains."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, environment, files_of, stage

FOLDER = ROOT / "docs" / "cluster"
STAGES = ("preprocess", "train", "infer")


@pytest.fixture(scope="module")
def documents():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install PyYAML")
    return list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()))


def flags_of(text, program):
    """The flags that a text gives a program, up to the end of its command."""
    command = re.search(rf"{program}\.py((?:[^\n]|\\\n|\n +(?=--))*)", text)[1]
    return {*re.findall(r"--(\w+)", command)}


@pytest.mark.parametrize("program", STAGES)
def test_every_flag_exists(program, documents):
    printed = stage(program, "--help", check=False).stdout
    known = {*re.findall(r"--(?:\[no\])?(\w+)", printed)}
    job = next(document for document in documents if document["metadata"]["name"].endswith(program))
    texts = [job["spec"]["template"]["spec"]["containers"][0]["args"][0]]
    texts += [(FOLDER / name).read_text() for name in ("submit.sh", "train.sbatch")]
    found = [flags_of(text, program) for text in texts if f"{program}.py" in text]
    assert len(found) == 2
    for flags in found:
        assert "run" in flags
        assert flags <= known


def test_the_training_job_has_an_index_for_each_chunk(documents):
    spec = {document["metadata"]["name"]: document["spec"] for document in documents}
    train = spec["solar-train"]
    assert train["completionMode"] == "Indexed"
    assert f"--num_chunks {train['completions']}" in str(spec["solar-preprocess"])
    assert "--chunks $JOB_COMPLETION_INDEX" in str(train)
    assert train["template"]["spec"]["restartPolicy"] == "Never"
    assert spec["solar-shared"]["accessModes"] == ["ReadWriteMany"]
    for name in ("solar-preprocess", "solar-train", "solar-infer"):
        pod = spec[name]["template"]["spec"]
        claims = [volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"]]
        assert claims == ["solar-shared"]


def test_a_task_of_the_array_trains_its_chunk(preprocessed, trained, tmp_path):
    for name in ("submit.sh", "train.sbatch"):
        subprocess.run(["bash", "-n", FOLDER / name], check=True)
    root, programs = tmp_path / "run", tmp_path / "bin"
    shutil.copytree(preprocessed.paths.root, root)
    programs.mkdir()  # the stage program as an installation has it: on the PATH
    shutil.copy(ROOT / "train" / "train.py", programs)
    env = {"RUN": str(root), "SLURM_ARRAY_TASK_ID": "1"}
    env["PATH"] = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["bash", FOLDER / "train.sbatch"]
    streams = {"capture_output": True, "text": True}
    done = subprocess.run(command, env=environment(env), cwd=tmp_path, **streams)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in root.glob("chunks/chunk_??")] == ["chunk_01"]
    found, expected = (files_of(place, "chunks/chunk_01") for place in (root, trained.paths.root))
    for name in expected:
        if name.endswith(".npy"):
            assert found[name] == expected[name]
