"""The programs under data/: the builder of the embedded default, and the slicer."""

import json
import lzma
import subprocess
import sys

import pytest
from conftest import ROOT

PACKAGES = """\
Package: zeta
Version: 1
Depends: alpha (>= 1) | beta:any, gone, zeta
Recommends: gamma [amd64]
Description: last   of them

Package: alpha
Pre-Depends: beta
Suggests: gamma,
 zeta
Description: first

Package: beta
Description: second

Package: gamma
Enhances: alpha
Description: third
"""


def run(program, *flags):
    command = [sys.executable, ROOT / "data" / program, *map(str, flags)]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    (folder / "Packages.xz").write_bytes(lzma.compress(PACKAGES.encode()))
    (folder / "InRelease").write_text("Origin: Debian\nCodename: test\nDate: today\n")
    flags = "--packages", folder / "Packages.xz", "--release", folder / "InRelease"
    run("build_debian.py", *flags, "--out", folder / "debian")
    return folder / "debian"


def lines(folder, part):
    return lzma.open(folder / f"{part}.txt.xz", "rt", encoding="utf-8").read().splitlines()


def test_labels_are_all_packages_named_and_there_with_their_titles(built):
    titles = ["alpha first", "beta second", "gamma third", "zeta last of them"]
    assert lines(built, "labels") == titles


def test_rows_have_the_relations_as_labels_without_themselves_and_the_missing(built):
    rows = sorted(lines(built, "train") + lines(built, "test"))
    assert rows == ["0,1,2\tzeta last of them", "1,2,3\talpha first"]


def test_the_card_counts_what_the_files_hold(built):
    card = json.loads((built / "card.json").read_text())
    assert card["counts"]["labels"] == 4
    assert card["counts"]["train"] + card["counts"]["test"] == 2
    assert card["counts"]["labels_per_query"] == 3
    assert card["source"] == {"origin": "Debian", "codename": "test", "date": "today"}


def test_a_slice_is_a_dataset_of_its_own(tmp_path):
    run("slice_dataset.py", "--rows", 100, "--out", tmp_path / "small")
    card = json.loads((tmp_path / "small" / "card.json").read_text())
    assert card["name"] == "small"
    assert len(lines(tmp_path / "small", "train")) == card["counts"]["train"] == 100
    assert lines(tmp_path / "small", "train") == lines(ROOT / "data" / "debian", "train")[:100]
