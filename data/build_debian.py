#!/usr/bin/env python3
"""Build the embedded default dataset from a Debian `Packages` index.

Query: a package's name and one-line description. Labels: the packages that it
depends on, recommends or suggests, titled in the same way. Needs only the
standard library (and the `lz4` program when the index is an .lz4 file):

    python data/build_debian.py                        # the index that apt keeps
    python data/build_debian.py --packages Packages.xz --release InRelease
"""

import argparse
import bz2
import collections
import glob
import gzip
import hashlib
import json
import lzma
import os
import re
import subprocess
import sys

RELATIONS = ("Pre-Depends", "Depends", "Recommends", "Suggests")
TEST_SHARE = 0.15
APT_LISTS = "/var/lib/apt/lists"


def read_text(path):
    """The whole text of `path`, which may be compressed."""
    if path.endswith(".lz4"):
        raw = subprocess.run(["lz4", "-dc", path], check=True, capture_output=True).stdout
    else:
        opener = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
        with opener.get(os.path.splitext(path)[1], open)(path, "rb") as file:
            raw = file.read()
    return raw.decode("utf-8")


def parse_stanzas(text):
    """Yield the fields of each stanza of a Debian control file (RFC 822 style)."""
    for stanza in text.split("\n\n"):
        fields, name = {}, None
        for line in stanza.splitlines():
            if line[:1] in (" ", "\t"):
                fields[name] += " " + line.strip()
            elif ":" in line:
                name, value = line.split(":", 1)
                fields[name] = value.strip()
        if fields:
            yield fields


def related(fields):
    """Names of all packages named in the relation fields, alternatives included."""
    names = set()
    for relation in RELATIONS:
        for clause in re.split(r"[,|]", fields.get(relation, "")):
            match = re.match(r"\s*([a-z0-9][a-z0-9+.\-]*)", clause)
            if match:
                names.add(match.group(1))
    return names


def in_test(name):
    """The fixed 85/15 split: a hash of the package's name."""
    digest = hashlib.sha256(name.encode()).digest()
    return int.from_bytes(digest[:8], "big") < TEST_SHARE * 2**64


def build(text):
    """Return the lines of train, test and labels."""
    packages = {}
    for fields in parse_stanzas(text):  # the first of several versions wins
        packages.setdefault(fields["Package"], fields)
    titles = {
        name: f"{name} {' '.join(fields.get('Description', '').split())}".strip()
        for name, fields in packages.items()
    }
    targets = {
        name: sorted((related(fields) & packages.keys()) - {name})
        for name, fields in packages.items()
    }
    label_names = sorted(set().union(*targets.values()))
    label_ids = {name: i for i, name in enumerate(label_names)}
    split = collections.defaultdict(list)
    for name in sorted(packages):
        if targets[name]:
            ids = ",".join(str(label_ids[label]) for label in targets[name])
            split["test" if in_test(name) else "train"].append(f"{ids}\t{titles[name]}")
    split["labels"] = [titles[name] for name in label_names]
    return split


def release_facts(path):
    """Suite, version and date from the archive's Release or InRelease file."""
    facts = {}
    if path and os.path.exists(path):
        for line in open(path, encoding="utf-8"):
            match = re.match(r"(Origin|Codename|Version|Date): (.+)", line)
            if match:
                facts[match.group(1).lower()] = match.group(2).strip()
    return facts


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packages", help="a Packages index; default: the one apt keeps")
    parser.add_argument("--release", help="its InRelease file, for the card")
    parser.add_argument("--out", default=os.path.join(os.path.dirname(__file__), "debian"))
    args = parser.parse_args()
    if not args.packages:
        found = sorted(glob.glob(f"{APT_LISTS}/*_main_binary-amd64_Packages*"), key=os.path.getsize)
        if not found:
            sys.exit(
                f"no Packages index under {APT_LISTS}: run `apt-get update` or pass --packages"
            )
        args.packages = found[-1]
        args.release = args.release or re.sub(r"_main_binary-.*", "_InRelease", args.packages)

    split = build(read_text(args.packages))
    os.makedirs(args.out, exist_ok=True)
    checksums = {}
    for part in ("train", "test", "labels"):
        raw = "".join(f"{line}\n" for line in split[part]).encode()
        path = os.path.join(args.out, f"{part}.txt.xz")
        with open(path, "wb") as file:
            file.write(lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME))
        with open(path, "rb") as file:
            checksums[f"{part}.txt.xz"] = hashlib.sha256(file.read()).hexdigest()

    rows = split["train"] + split["test"]
    card = {
        "name": "debian",
        "title": "Debian packages and what they depend on, recommend or suggest",
        "source": release_facts(args.release),
        "task": "query: name and one-line description of a package; "
        "labels: the packages that it depends on, recommends or suggests",
        "licence": "Package metadata of Debian's main section, which is free software by the "
        "Debian Free Software Guidelines; each description is under the licence of its own "
        "package (see its debian/copyright).",
        "built_by": "data/build_debian.py",
        "split": "85/15 by sha256 of the package's name",
        "format": "titles",
        "files": {
            "train": "train.txt.xz",
            "test": "test.txt.xz",
            "labels": "labels.txt.xz",
        },
        "sha256": checksums,
        "counts": {
            "train": len(split["train"]),
            "test": len(split["test"]),
            "labels": len(split["labels"]),
            "labels_per_query": round(
                sum(row.split("\t")[0].count(",") + 1 for row in rows) / len(rows), 3
            ),
        },
        "propensity": {"a": 0.55, "b": 1.5},
        "preset": "debian",
    }
    with open(os.path.join(args.out, "card.json"), "w", encoding="utf-8") as file:
        json.dump(card, file, indent=2)
        file.write("\n")
    print(json.dumps(card["counts"]), f"-> {args.out}")


if __name__ == "__main__":
    main()
