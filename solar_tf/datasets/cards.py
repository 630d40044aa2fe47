"""Dataset cards: NAME/card.json in a folder of datasets.

Such folders are $SOLAR_DATA, if it is set, and the one shipped with the package; the first that
has the name wins.

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
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Card:
    """A dataset's card, and the folder that its files are in."""

    folder: Path
    content: dict

    @property
    def name(self):
        return self.content["name"]

    def file(self, role):
        """The path of the file for a role such as "train"; it must exist."""
        path = self._inside(self._entry("files").get(role))
        if not path.is_file():
            where = self.content.get("url", "its source, named in the card")
            raise UserError(f"{path}: no such file: get the dataset {self.name} from {where}")
        return path

    def verify(self):
        """Compare all files that have a sha256 with it; the first that differs is a UserError."""
        for name, expected in self._entry("sha256").items():
            path = self._inside(name)
            if not path.is_file():
                raise UserError(f"{path}: no such file: download or build it again")
            if sha256(path) != expected:
                raise UserError(f"{path}: its sha256 is not the card's: download or build it again")

    def _entry(self, key):
        entry = self.content.get(key, {})
        if not isinstance(entry, dict):
            raise UserError(f"{self.folder / 'card.json'}: `{key}` is no object: correct the card")
        return entry

    def _inside(self, name):
        """A file of the card's folder; a card must not reach out of it."""
        if not isinstance(name, str) or not name:
            known = ", ".join(self._entry("files")) or "none"
            raise UserError(f"dataset {self.name}: no such file in its card: it has {known}")
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise UserError(f"{self.folder / 'card.json'}: {name!r} is outside: correct the card")
        return self.folder / name


def sha256(path):
    """The hexadecimal sha256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def list_cards():
    """The names of all datasets with a card, sorted."""
    return sorted({path.parent.name for folder in FOLDERS for path in folder.glob("*/card.json")})


def load_card(name):
    """The card of a dataset by its name."""
    if NAME.fullmatch(name):
        for folder in FOLDERS:
            path = folder / name / "card.json"
            if path.is_file():
                return _read(path)
    known = ", ".join(list_cards()) or "none"
    raise UserError(f"unknown dataset {name!r}: choose one of {known}, or give your own files")


def _read(path):
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON ({error}): correct the card")
    if not isinstance(content, dict) or content.get("name") != path.parent.name:
        raise UserError(f"{path}: its `name` is not {path.parent.name!r}: correct the card")
    return Card(path.parent, content)
