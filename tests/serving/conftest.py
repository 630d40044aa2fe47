"""Servers and runs that tests share."""

import shutil

import pytest

from serving.server_process import serving


@pytest.fixture
def copied_run(trained, tmp_path):
    """A run that a test may change."""
    return shutil.copytree(trained.paths.root, tmp_path / "run")


@pytest.fixture(scope="session")
def server(trained, tmp_path_factory):
    """A server that tests share, on a run of its own."""
    root = shutil.copytree(trained.paths.root, tmp_path_factory.mktemp("served") / "topics")
    with serving(root) as running:
        yield running
