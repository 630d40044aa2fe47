"""A whole run verified, artifact by artifact."""

import random
import re
import shutil

import pytest
from conftest import flipped, run_solar

from solar_tf.errors import UserError
from solar_tf.operations.check import check
from solar_tf.retrieval.evaluation import infer
from solar_tf.run.files import read_json, write_json


@pytest.fixture(scope="module")
def whole(trained, tmp_path_factory):
    """A run after all three stages; not to be changed."""
    root = tmp_path_factory.mktemp("whole") / "run"
    shutil.copytree(trained.paths.root, root)
    infer(root, top_buckets=(7,))
    return root


def artifacts(root):
    return sorted(
        path
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".lock" and path.name != "verified.json"
    )


def test_a_sound_run_passes_with_every_file_seen(whole):
    report = check(whole)
    assert report.problems == []
    assert {*report.seen} == {*artifacts(whole)}
    assert report.others() == ([], [])


def test_a_flipped_bit_or_a_cut_anywhere_is_found_and_its_stage_named(whole, tmp_path):
    root = shutil.copytree(whole, tmp_path / "run")
    generator, stages = random.Random(5), set()
    for path in artifacts(root):
        content = path.read_bytes()
        size = len(content)
        path.write_bytes(flipped(content, 8 * generator.randrange(size // 3, size * 2 // 3) + 2))
        problems = check(root).problems
        assert problems or path.suffix == ".npz", path  # zip has bytes that say nothing
        assert all(str(root) in problem for problem in problems)
        if problems:
            stages |= {*re.findall(r"run (\w+\.py) again|run with (\w+\.py)", problems[0])}
        cuts = [content[:-1], content[: size // 2], b""]
        for cut in cuts[path.suffix == ".json" :]:  # without its last newline JSON is whole
            path.write_bytes(cut)
            assert check(root).problems, path
        path.write_bytes(content)
    assert {"".join(pair) for pair in stages} == {"preprocess.py", "train.py", "infer.py"}
    assert check(root).problems == []


def test_the_command_says_what_is_wrong_and_fails(whole, tmp_path):
    done = run_solar("check", whole)
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing damaged" in done.stdout
    root = shutil.copytree(whole, tmp_path / "run")
    bad = root / "chunks" / "chunk_01" / "output_kernel.npy"
    bad.write_bytes(bad.read_bytes()[:-4] + b"abcd")
    (root / "index" / "chunk_00.pkl").unlink()
    (root / "records" / "x.1.tmp").touch()
    (root / "notes.txt").touch()
    done = run_solar("check", root)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"error: {root}/index/chunk_00.pkl: No such file or directory: delete it and run "
        "preprocess.py again",
        f"error: {bad}: damaged, its sha256 is wrong: delete {bad.parent} and run train.py again",
    ]
    assert "1 files without a checksum, such as" in done.stdout
    assert "1 temporary files" in done.stdout
    assert "2 damaged" in done.stdout


def test_no_run_and_an_unfinished_one_are_told_apart(preprocessed, tmp_path):
    with pytest.raises(UserError, match="no run here"):
        check(tmp_path)
    root = shutil.copytree(preprocessed.paths.root, tmp_path / "run")
    (root / "records" / "summary.json").unlink()
    assert check(root).problems == [
        f"{root}: preprocessing is not complete: run preprocess.py --run {root}"
    ]


def test_names_that_lead_out_of_the_run_are_refused(preprocessed, tmp_path):
    root = shutil.copytree(preprocessed.paths.root, tmp_path / "run")
    (tmp_path / "secret").write_text("secret")
    summary = read_json(root / "records" / "summary.json")
    summary["files"]["../secret"] = [6, "ab"]
    write_json(root / "records" / "summary.json", summary)
    assert check(root).problems == [
        f"{root}: '../secret' is no name of a file in it: do not trust this folder"
    ]


@pytest.mark.parametrize("root", ["s3://bucket/run", "ftp://me:secret@host/run/"])
def test_a_run_in_a_store_is_copied_first(root):
    url = root.rstrip("/").replace("me:secret@", "")  # no password on screens
    with pytest.raises(UserError) as found:
        check(root)
    assert str(found.value) == f"{url}: this needs the run in a folder: solar pull {url} FOLDER"


def test_attributes_of_labels_are_verified(whole, tmp_path):
    root = shutil.copytree(whole, tmp_path / "run")
    path = root / "attributes.tsv"
    path.write_text("kind\n" + "even\nodd\n" * 20)
    report = check(root)
    assert report.problems == []
    assert path in report.seen
    path.write_text("kind\n" + "even\nodd\n" * 19)
    (problem,) = check(root).problems
    assert str(path) in problem
