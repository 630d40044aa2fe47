"""Cards: found by name, never outside their folder; the embedded dataset is as its card says."""

import inspect
import json

import pytest

from solar_tf.config import PRESETS
from solar_tf.datasets import FORMATS, cards, open_source, read_label_titles
from solar_tf.datasets.cards import PROPENSITY_AMAZON, PROPENSITY_DEFAULT, PROPENSITY_WIKIPEDIA
from solar_tf.datasets.dataset import open_files

from .files import assert_refused, write


@pytest.fixture
def card_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(cards, "FOLDERS", (tmp_path / "installed", tmp_path / "checkout"))
    return tmp_path


def write_card(folder, name, **content):
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "card.json").write_text(json.dumps({"name": name, **content}))
    return folder / name


PAPER = {"books", "Amazon-3M", "Wiki-500K-dense", "Amazon-670K-dense"}
XML_REPO = {
    *("Eurlex-4K", "Wiki10-31K", "AmazonCat-13K", "Delicious-200K", "WikiLSHTC-325K"),
    *("Wiki-500K", "Amazon-670K", "Amazon-3M", "LF-AmazonTitles-131K", "LF-AmazonTitles-1.3M"),
}


def test_there_are_cards_of_the_paper_and_of_the_xml_repo():
    assert set(cards.list_cards()) >= PAPER | XML_REPO | {"debian"}


@pytest.mark.parametrize("name", cards.list_cards())
def test_every_card_of_the_project_is_complete(name):
    card = cards.load_card(name)
    assert card.name == name
    assert card.content["preset"] in PRESETS
    assert card.content["format"] in FORMATS
    assert card.source
    assert card.propensity in (PROPENSITY_DEFAULT, PROPENSITY_WIKIPEDIA, PROPENSITY_AMAZON)
    counts = card.content["counts"]
    assert all(number > 0 for number in counts.values())
    assert counts.keys() >= {"train", "labels"}
    roles = inspect.signature(open_files).parameters
    assert card.content["files"].keys() <= roles.keys()


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("WikiLSHTC-325K", PROPENSITY_WIKIPEDIA),
        ("Wiki-500K", PROPENSITY_WIKIPEDIA),
        ("Amazon-670K", PROPENSITY_AMAZON),
        ("LF-AmazonTitles-1.3M", PROPENSITY_AMAZON),
        ("eurlex-4k", PROPENSITY_DEFAULT),  # capitals do not matter
    ],
)
def test_the_constants_of_the_propensity_model_are_the_published_ones(name, published):
    assert cards.load_card(name).propensity == published


def test_the_papers_dense_datasets_take_the_papers_settings():
    for name in ("Wiki-500K-dense", "Amazon-670K-dense"):
        card = cards.load_card(name)
        assert card.content["counts"]["features"] == 512
        preset = PRESETS[card.content["preset"]]
        assert (preset.num_chunks, preset.num_buckets) == (32, 20_000)


def test_data_without_a_card_of_its_own_goes_beside_that_of_the_package(card_folder):
    files = {"train": ["train.txt", "one_train.txt"]}
    write_card(card_folder / "checkout", "one", files=files, url="x.org")
    place = card_folder / "installed" / "one"
    place.mkdir(parents=True)
    missing = r"checkout/one/train.txt: no such file: get the dataset one from x\.org"
    assert_refused(missing, cards.load_card("one").paths)
    assert_refused("no such file in its card: it has train", cards.load_card("one").file, "test")
    write(place, "0\ta\n", "one_train.txt")
    assert cards.load_card("one").paths() == {"train": place / "one_train.txt"}


def test_a_dataset_that_was_never_published_says_so():
    message = "books: the authors .* did not publish it: name your own"
    assert_refused(message, cards.load_card("books").paths)


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
    assert counts["test"] / num_rows == pytest.approx(0.15, abs=0.005)


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
    assert_refused("unknown dataset .*: choose one of one, two", cards.load_card, name)


@pytest.mark.parametrize("entry", ["../secret", "/etc/passwd", "sub/../../secret", "link", "", 3])
def test_files_stay_inside_the_folder(card_folder, entry):
    (card_folder / "secret").write_text("secret")
    folder = write_card(
        card_folder / "installed", "one", files={"train": entry}, sha256={entry: "0"}
    )
    (folder / "link").symlink_to(card_folder / "secret")
    card = cards.load_card("one")
    assert_refused("is outside|no such file", card.file, "train")
    assert_refused("is outside|no such file", card.verify)


def test_verify_finds_missing_and_changed_files(card_folder):
    digest = cards.sha256(write(card_folder, "data"))
    folder = write_card(card_folder / "installed", "one", sha256={"train.txt": digest})
    card = cards.load_card("one")
    assert_refused(r"train.txt: no such file", card.verify)
    write(folder, "data")
    card.verify()
    write(folder, "date")
    assert_refused(r"train.txt: its sha256 is not the card's", card.verify)


@pytest.mark.parametrize("text", ["{", "[]", '{"name": "other"}', "\udcff"])
def test_a_damaged_card_is_an_error(card_folder, text):
    folder = write_card(card_folder / "installed", "one")
    (folder / "card.json").write_bytes(text.encode(errors="surrogateescape"))
    assert_refused("correct the card", cards.load_card, "one")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"files": ["train.txt"]}, "`files` is no object"),
        ({"files": {"test": "a"}}, "its `files` are not a train file and others of train, test"),
        ({"files": {"train": "a", "valid": "b"}}, "its `files` are not a train file"),
        ({"files": {"train": []}}, "no such file in its card"),
        ({"counts": {"train": "5"}}, "`counts` has values that are no numbers: correct the card"),
        ({"propensity": {"a": None}}, "`propensity` has values that are no numbers"),
    ],
)
def test_a_card_with_a_mistake_is_an_error(card_folder, content, message):
    write_card(card_folder / "installed", "one", **content)
    card = cards.load_card("one")
    assert_refused(message, lambda: (card.counts, card.propensity, card.paths()))
