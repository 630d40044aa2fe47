"""Dataset cards: NAME/card.json in a folder of datasets.

Such folders are $SOLAR_DATA, if it is set, and the one shipped with the package; the first that
has the name wins. The files that a card names are looked for in NAME/ of every such folder:
most cards are shipped without the data, which goes to $SOLAR_DATA/NAME/.

A card says where a dataset comes from, under which licence, its files and their sha256,
counts, the preset to use and the constants of the propensity model.
"""

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import solar_tf
from solar_tf.errors import UserError

FOLDERS = (
    *([Path(os.environ["SOLAR_DATA"])] if os.environ.get("SOLAR_DATA") else []),
    Path(solar_tf.__file__).parent / "embedded",  # in a checkout, a link to its data/
)
# a and b of the propensity model, as fixed by Jain et al., KDD 2016.
PROPENSITY_WIKIPEDIA = (0.5, 0.4)
PROPENSITY_AMAZON = (0.6, 2.6)
PROPENSITY_DEFAULT = (0.55, 1.5)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
ROLES = ("train", "test", "labels", "train_labels", "test_labels", "filter")  # of files


@dataclass(frozen=True)
class Card:
    """A dataset's card, and the folder that its files are in."""

    folder: Path
    content: dict

    @property
    def name(self):
        return self.content["name"]

    @property
    def source(self):
        """Where to get the dataset."""
        if "unpublished" in self.content:
            return "not published"
        return self.content.get("url") or self.content.get("built_by") or "its source"

    @property
    def propensity(self):
        """a and b of the propensity model (Jain et al., KDD 2016)."""
        stated = self._numbers("propensity")
        return tuple(
            stated.get(key, value) for key, value in zip("ab", PROPENSITY_DEFAULT, strict=True)
        )

    @property
    def counts(self):
        """Numbers of train and test rows, features, labels, labels_per_query and the like."""
        return self._numbers("counts")

    def file(self, role):
        """The path of the file for a role such as "train"; it must exist."""
        return self._existing(self._entry("files").get(role))

    def paths(self):
        """The paths of all files by role; they must exist."""
        roles = self._entry("files")
        if not roles:
            reason = self.content.get("unpublished", "its card names no files")
            raise UserError(
                f"dataset {self.name}: {reason}: name your own files with --train and --test, or "
                "make some of its size with solar synthesize"
            )
        if "train" not in roles or not roles.keys() <= set(ROLES):
            known = ", ".join(ROLES)
            raise self._mistake(f"its `files` are not a train file and others of {known}")
        return {role: self.file(role) for role in roles}

    def verify(self):
        """Compare all files with their sha256, if they have one; a difference is a UserError."""
        for name, expected in self._entry("sha256").items():
            path = self._existing(name)
            if sha256(path) != expected:
                raise UserError(f"{path}: its sha256 is not the card's: download or build it again")

    def _entry(self, key):
        entry = self.content.get(key, {})
        if not isinstance(entry, dict):
            raise self._mistake(f"`{key}` is no object")
        return entry

    def _numbers(self, key):
        entry = self._entry(key)
        if not all(isinstance(value, int | float) for value in entry.values()):
            raise self._mistake(f"`{key}` has values that are no numbers")
        return entry

    def _mistake(self, what):
        return UserError(f"{self.folder / 'card.json'}: {what}: correct the card")

    def _existing(self, names):
        """A file in the card's folder, or in the dataset's place in another.

        `names` is its name, or a list of alternative names.
        """
        names = names if isinstance(names, list) and names else [names]
        folders = [self.folder, *(folder / self.name for folder in FOLDERS)]
        places = [self._inside(folder, name) for folder in folders for name in names]
        for path in places:
            if path.is_file():
                return path
        raise UserError(
            f"{places[0]}: no such file: get the dataset {self.name} from {self.source}, put its "
            f"files there or into $SOLAR_DATA/{self.name}/, or name them with --train and --test"
        )

    def _inside(self, folder, name):
        """A file of a folder; a card must not reach out of it."""
        if not isinstance(name, str) or not name:
            known = ", ".join(self._entry("files")) or "none"
            raise UserError(f"dataset {self.name}: no such file in its card: it has {known}")
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise self._mistake(f"{name!r} is outside")
        return folder / name


def sha256(path):
    """The hexadecimal sha256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def list_cards():
    """The names of all datasets with a card, sorted."""
    return sorted({path.parent.name for folder in FOLDERS for path in folder.glob("*/card.json")})


def load_card(name):
    """The card of a dataset by its name, in capitals or not."""
    cards = list_cards()
    if name not in cards:
        name = next((card for card in cards if card.lower() == name.lower()), name)
    if NAME.fullmatch(name):
        for folder in FOLDERS:
            path = folder / name / "card.json"
            if path.is_file():
                return _read(path)
    known = ", ".join(cards) or "none"
    raise UserError(f"unknown dataset {name!r}: choose one of {known}, or give your own files")


def _read(path):
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON ({error}): correct the card")
    if not isinstance(content, dict) or content.get("name") != path.parent.name:
        raise UserError(f"{path}: its `name` is not {path.parent.name!r}: correct the card")
    return Card(path.parent, content)
