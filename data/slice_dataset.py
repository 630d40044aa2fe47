#!/usr/bin/env python3
"""Cut a small dataset from a big one of titles, to try things in seconds.

    python data/slice_dataset.py --rows 2000 --out /tmp/small/debian
    SOLAR_DATA=/tmp/small preprocess.py

The first rows of each split are kept, and all labels. The slice has a card of its own.
"""

import argparse
import hashlib
import itertools
import json
import lzma
import os


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--dataset", default=os.path.join(here, "debian"), help="a card's folder")
    parser.add_argument("--rows", type=int, default=2000, help="training rows to keep")
    parser.add_argument("--out", required=True, help="folder to make; its name is the dataset's")
    args = parser.parse_args()

    with open(os.path.join(args.dataset, "card.json"), encoding="utf-8") as file:
        card = json.load(file)
    os.makedirs(args.out, exist_ok=True)
    for role, name in card["files"].items():
        rows = {"train": args.rows, "test": max(1, args.rows // 5)}.get(role)
        with lzma.open(os.path.join(args.dataset, name)) as file:
            lines = list(itertools.islice(file, rows))
        packed = lzma.compress(b"".join(lines))
        with open(os.path.join(args.out, name), "wb") as file:
            file.write(packed)
        card["sha256"][name] = hashlib.sha256(packed).hexdigest()
        card["counts"][role] = len(lines)
    card["name"] = os.path.basename(os.path.abspath(args.out))
    card["title"] += f" (the first {args.rows} rows)"
    with open(os.path.join(args.out, "card.json"), "w", encoding="utf-8") as file:
        json.dump(card, file, indent=2)


if __name__ == "__main__":
    main()
