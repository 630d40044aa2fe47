"""Cards: found by name, never outside their folder; the embedded dataset is as its card says."""

import json

import pytest

from solar_tf.datasets import cards, open_source, read_label_titles
from solar_tf.errors import UserError


@pytest.fixture
def card_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(cards, "FOLDERS", (tmp_path / "installed", tmp_path / "checkout"))
    return tmp_path


def write_card(folder, name, **content):
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "card.json").write_text(json.dumps({"name": name, **content}))
    return folder / name


def test_every_card_of_the_project_loads():
    assert "debian" in cards.list_cards()
    for name in cards.list_cards():
        assert cards.load_card(name).name == name


def test_the_embedded_dataset_is_as_its_card_says():
    card = cards.load_card("debian")
    card.verify()
    titles = read_label_titles(card.file("labels"))
    counts = card.content["counts"]
    assert len(titles) == counts["labels"]
    num_labels = num_rows = 0
    for split in ("train", "test"):
        rows = open_source(card.file(split), num_labels=len(titles)).read()
        assert len(rows) == counts[split]
        assert rows.num_unlabelled == rows.num_duplicate_labels == rows.num_featureless == 0
        num_labels, num_rows = num_labels + len(rows.labels), num_rows + len(rows)
    assert num_labels / num_rows == pytest.approx(counts["labels_per_query"], abs=0.01)


def test_the_installed_card_comes_before_the_checkout(card_folder):
    write_card(card_folder / "checkout", "one", title="checkout")
    write_card(card_folder / "checkout", "two")
    write_card(card_folder / "installed", "one", title="installed")
    assert cards.list_cards() == ["one", "two"]
    assert cards.load_card("one").content["title"] == "installed"


@pytest.mark.parametrize("name", ["none", "../one", "/etc", "one/../one", "", ".", "..", "one\0"])
def test_an_unknown_name_lists_the_known(card_folder, name):
    write_card(card_folder / "installed", "one")
    write_card(card_folder / "checkout", "two")
    with pytest.raises(UserError, match="unknown dataset .*: choose one of one, two"):
        cards.load_card(name)


@pytest.mark.parametrize("entry", ["../secret", "/etc/passwd", "sub/../../secret", "link", "", 3])
def test_files_stay_inside_the_folder(card_folder, entry):
    (card_folder / "secret").write_text("secret")
    folder = write_card(
        card_folder / "installed", "one", files={"train": entry}, sha256={entry: "0"}
    )
    (folder / "link").symlink_to(card_folder / "secret")
    with pytest.raises(UserError, match="is outside|no such file in its card|no such file"):
        cards.load_card("one").file("train")
    with pytest.raises(UserError):
        cards.load_card("one").verify()


def test_verify_finds_missing_and_changed_files(card_folder):
    folder = card_folder / "installed" / "one"
    folder.mkdir(parents=True)
    (folder / "train.txt").write_text("data")
    digest = cards.sha256(folder / "train.txt")
    write_card(card_folder / "installed", "one", sha256={"train.txt": digest})
    card = cards.load_card("one")
    card.verify()
    (folder / "train.txt").write_text("date")
    with pytest.raises(UserError, match=r"train.txt: its sha256 is not the card's"):
        card.verify()
    (folder / "train.txt").unlink()
    with pytest.raises(UserError, match=r"train.txt: no such file"):
        card.verify()


def test_a_file_that_is_not_shipped_says_where_to_get_it(card_folder):
    write_card(card_folder / "installed", "one", url="example.org", files={"train": "train.txt"})
    with pytest.raises(UserError, match=r"no such file: get the dataset one from example\.org"):
        cards.load_card("one").file("train")
    with pytest.raises(UserError, match="no such file in its card: it has train"):
        cards.load_card("one").file("test")


@pytest.mark.parametrize("text", ["{", "[]", '{"name": "other"}', "\udcff"])
def test_a_damaged_card_is_an_error(card_folder, text):
    folder = write_card(card_folder / "installed", "one")
    (folder / "card.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match="correct the card"):
        cards.load_card("one")
