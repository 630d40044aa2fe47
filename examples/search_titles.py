"""Train on a few hundred titles and search them.

    python examples/search_titles.py

The titles are those of a small shop, and each has two labels: its department and its material.
With data of your own, give `fit` your titles, the numbers of each title's labels, and the
labels' titles.
"""

import itertools

from solar_tf import Solar

DEPARTMENTS = {
    "shirt": "clothing",
    "scarf": "clothing",
    "hat": "clothing",
    "chair": "furniture",
    "table": "furniture",
    "shelf": "furniture",
    "spoon": "kitchen",
    "bowl": "kitchen",
}
MATERIALS = ("cotton", "wool", "oak", "pine", "steel", "glass")
COLOURS = ("red", "green", "blue", "white", "black", "yellow", "grey", "brown")
LABELS = ["clothing", "furniture", "kitchen", *(f"made of {name}" for name in MATERIALS)]


def shop():
    """The titles, and the numbers of the labels of each."""
    for colour, material, thing in itertools.product(COLOURS, MATERIALS, DEPARTMENTS):
        labels = (DEPARTMENTS[thing], f"made of {material}")
        yield f"{colour} {material} {thing}", [LABELS.index(label) for label in labels]


def main():
    titles, labels = zip(*shop(), strict=True)
    sizes = {"num_chunks": 4, "num_buckets": 16, "hidden_dim": 32}
    solar = Solar(**sizes, batch_size=16, epochs=5, learning_rate=1e-2)
    solar.fit(titles, labels, LABELS)
    queries = ["a chair of oak", "a warm wool scarf", "shirt", "steel bowl and a spoon"]
    for query, hits in zip(queries, solar.search(queries, k=3), strict=True):
        print(query)
        for hit in hits:
            print(f"    {hit.score:6.2f}  {hit.title}")


if __name__ == "__main__":
    main()
