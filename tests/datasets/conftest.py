import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all examples of a property, which come too fast for one each."""
    return tmp_path_factory.mktemp("folder")
