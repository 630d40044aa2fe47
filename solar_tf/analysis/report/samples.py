"""Sample queries, frequent and infrequent, and their predictions (Table 5, appendix D)."""

from dataclasses import dataclass

import numpy as np

from solar_tf.analysis.tail import by_half, query_halves, row_features
from solar_tf.datasets.dataset import open_named
from solar_tf.datasets.vocabulary import Vocabulary
from solar_tf.errors import UserError
from solar_tf.retrieval.metrics import true_labels

TOP = 4  # predictions that the paper shows


@dataclass(frozen=True)
class SampleQuery:
    row: int
    half: str  # frequent or infrequent
    text: str
    num_true: int
    predictions: dict  # by model: pairs of a title and whether it is correct
    truth: list  # titles of true labels


@dataclass(frozen=True)
class Samples:
    queries: list
    halves: dict  # P@1 and P@4 over all test queries: {model: {half: {metric: percent}}}
    have_texts: bool  # else the known words of a query stand in for its text


def draw(run, ids, each, source=None, top=TOP):
    """Random queries of each half; `ids` are predictions [Q, k] by model.

    `source` has the texts of the test queries, if the run's own dataset is not at hand. Returns
    None where queries have no words.
    """
    if run.dataset["kind"] != "text" or not ids:
        return None
    halves, truth = query_halves(run), true_labels(run)
    source = source or source_of(run)
    chosen = pick(halves, each)
    rows = [row for _, row in chosen]
    texts = query_texts(source, rows) if source else query_words(run, rows)
    precision = {
        model: {
            half: {name: row[name] for name in ("P@1", f"P@{TOP}")}
            for half, row in by_half(found, *truth, halves, ks=(1, TOP)).items()
        }
        for model, found in ids.items()
    }
    return Samples(_describe(run, chosen, ids, texts, truth, top), precision, source is not None)


def pick(halves, each, seed=0):
    """Some random queries of each half: pairs (half, row)."""
    generator = np.random.default_rng(seed)
    return [
        (half, int(row))
        for half, rows in halves.items()
        for row in generator.choice(rows, min(each, len(rows)), replace=False)
    ]


def _describe(run, chosen, ids, texts, truth, top):
    titles = None
    if run.paths.label_titles.exists():
        titles = run.paths.label_titles.read_text(encoding="utf-8").split("\n")

    def title(label):
        return titles[label] if titles else f"label {label}"

    samples = []
    for half, row in chosen:
        true = truth[1][truth[0][row] : truth[0][row + 1]]
        shown = {
            model: [(title(label), bool(label in true)) for label in found[row, :top] if label >= 0]
            for model, found in ids.items()
        }
        names = [title(label) for label in true]
        samples.append(SampleQuery(row, half, texts[row], len(true), shown, names))
    return samples


def query_words(run, rows):
    """Known words of queries by row, the rarest first."""
    vocabulary = Vocabulary.load(run.paths.vocabulary).words
    splits, words = row_features(run, "test")
    return {
        row: " ".join(vocabulary[word] for word in words[splits[row] : splits[row + 1]][::-1])
        for row in rows
    }


def source_of(run):
    """The test rows of the card that the run was made from, or None where it is not at hand."""
    try:
        dataset = open_named(run.dataset["name"])
    except UserError:
        return None
    return dataset.test if dataset.fingerprint() == run.dataset["files"] else None


def query_texts(source, rows):
    """The texts of some rows of a source, by row."""
    wanted, found = set(rows), {}
    for block in source.blocks(10_000):
        here = wanted & set(range(block.first_row, block.first_row + block.num_rows))
        if here:
            texts = source.parse(block).texts
            found |= {row: texts[row - block.first_row] for row in here}
    return found
