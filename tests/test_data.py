"""The programs under data/: the builder of the embedded default, and the slicer."""

import json
import lzma

from conftest import ROOT, run_python

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
    done = run_python(ROOT / "data" / program, *flags)
    assert done.returncode == 0, done.stderr


def lines(folder, part):
    return lzma.open(folder / f"{part}.txt.xz", "rt", encoding="utf-8").read().splitlines()


def test_a_dataset_is_built_of_the_packages_and_their_relations(tmp_path):
    """Labels are all packages by name. No row has itself or a missing package among its labels."""
    (tmp_path / "Packages.xz").write_bytes(lzma.compress(PACKAGES.encode()))
    (tmp_path / "InRelease").write_text("Origin: Debian\nCodename: test\nDate: today\n")
    flags = "--packages", tmp_path / "Packages.xz", "--release", tmp_path / "InRelease"
    built = tmp_path / "debian"
    run("build_debian.py", *flags, "--out", built)
    titles = ["alpha first", "beta second", "gamma third", "zeta last of them"]
    assert lines(built, "labels") == titles
    rows = sorted(lines(built, "train") + lines(built, "test"))
    assert rows == ["0,1,2\tzeta last of them", "1,2,3\talpha first"]
    card = json.loads((built / "card.json").read_text())
    counts = card["counts"]
    assert (counts["labels"], counts["train"] + counts["test"]) == (4, 2)
    assert counts["labels_per_query"] == 3
    assert card["source"] == {"origin": "Debian", "codename": "test", "date": "today"}


def test_a_slice_is_a_dataset_of_its_own(tmp_path):
    run("slice_dataset.py", "--rows", 100, "--out", tmp_path / "small")
    card = json.loads((tmp_path / "small" / "card.json").read_text())
    assert card["name"] == "small"
    assert len(lines(tmp_path / "small", "train")) == card["counts"]["train"] == 100
    assert lines(tmp_path / "small", "train") == lines(ROOT / "data" / "debian", "train")[:100]
