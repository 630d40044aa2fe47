"""Servers and runs that tests share."""

import shutil

import pytest

from serving.server_process import serving


@pytest.fixture
def copied_run(trained, tmp_path):
    """A run that a test may change."""
    return shutil.copytree(trained.paths.root, tmp_path / "run")


def write_attributes(path, num_labels=40, extra=""):
    """Labels are even or odd numbers; one has a note."""
    kinds = ("even", "odd one")
    rows = [f"{kinds[i % 2]}\t{i}\t{'a note' if i == 3 else ''}" for i in range(num_labels)]
    path.write_text("\n".join(["kind\tnumber\tnote" + extra, *(row + extra for row in rows), ""]))


@pytest.fixture
def run_with_attributes(copied_run):
    write_attributes(copied_run / "attributes.tsv")
    return copied_run


@pytest.fixture(scope="session")
def server(trained_once, tmp_path_factory):
    """A server that tests share, on a run of its own with attributes."""
    root = shutil.copytree(trained_once.paths.root, tmp_path_factory.mktemp("served") / "topics")
    write_attributes(root / "attributes.tsv")
    with serving(root) as running:
        yield running
