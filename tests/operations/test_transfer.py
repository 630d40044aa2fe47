import shutil

import pytest
from conftest import files_of, flipped

from solar_tf.cli.solar import main
from solar_tf.errors import UserError
from solar_tf.operations.transfer import pull, push
from solar_tf.retrieval.searcher import open_searcher
from solar_tf.run.changes import append, changing
from solar_tf.run.directory import open_run


@pytest.fixture
def url(tmp_path, monkeypatch):
    pytest.importorskip("fsspec", reason="fsspec is not installed: pip install solar-tf[store]")
    monkeypatch.setenv("SOLAR_MIRROR", str(tmp_path / "mirrors"))
    return f"local://{tmp_path}/store/run"


@pytest.fixture
def run(trained, tmp_path):
    return open_run(shutil.copytree(trained.paths.root, tmp_path / "run"))


def test_a_run_comes_back_as_it_went(run, url, tmp_path):
    assert main(["push", str(run.paths.root), url]) == 0
    assert main(["pull", url, str(tmp_path / "copy")]) == 0
    assert files_of(tmp_path / "copy") == files_of(run.paths.root)


def test_changes_of_the_catalogue_go_along(run, url, tmp_path):
    push(run.paths.root, url)
    with changing(run) as delta:
        append(run, delta, removed=[3])
    assert open_searcher(url).search("topic3")[0].label == 3
    push(run.paths.root, url)
    assert open_searcher(url).search("topic3")[0].label != 3
    assert not pull(url, tmp_path / "copy").problems
    assert files_of(tmp_path / "copy") == files_of(run.paths.root)


def test_another_run_is_refused(run, preprocessed, url, tmp_path):
    push(run.paths.root, url)
    other = shutil.copytree(preprocessed.paths.root, tmp_path / "other")
    text = (other / "config.json").read_text()
    (other / "config.json").write_text(text.replace("\n}", "\n }"))
    for transfer in (push, lambda folder, url: pull(url, folder)):
        with pytest.raises(UserError, match="another run than that at"):
            transfer(other, url)


def test_damage_is_one_line_each(run, url, tmp_path, capsys):
    push(run.paths.root, url)
    path = tmp_path / "store" / "run" / "index" / "chunk_01.pkl"
    content = path.read_bytes()
    path.write_bytes(flipped(content, 4 * len(content)))
    assert main(["pull", url, str(tmp_path / "copy")]) == 1
    assert "chunk_01.pkl: damaged" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["pull", "no_url", "to"], ["push", "no_run", "local:///no/url"]])
def test_bad_arguments_are_one_line(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(words)
    assert capsys.readouterr().err.startswith(f"error: {words[1]}: no")
