"""Sample queries, frequent and infrequent, and their predictions (Table 5, appendix D).

A query's frequency is the sum of its words' frequencies in the corpus, here the number of
training titles with each word. The frequent half of the test queries is the upper one.
"""

from dataclasses import dataclass

import numpy as np

from solar_tf.analysis.report.curves import csr_rows
from solar_tf.datasets.dataset import open_named
from solar_tf.datasets.vocabulary import Vocabulary
from solar_tf.errors import UserError
from solar_tf.retrieval import metrics
from solar_tf.retrieval.truth import true_labels
from solar_tf.run.files import read_arrays
from solar_tf.runtime.ragged import row_numbers, row_splits

TOP = 4  # predictions that the paper shows
KINDS = ("frequent", "infrequent")


@dataclass(frozen=True)
class SampleQuery:
    row: int
    kind: str
    text: str
    num_true: int
    predictions: dict  # by model: pairs of a title and whether it is correct
    truth: list  # titles of true labels


def query_frequencies(run):
    """Summed frequency of the words of every test query, [Q]; None where there are no words."""
    if run.dataset["kind"] != "text":
        return None
    frequencies = Vocabulary.load(run.paths.vocabulary).frequencies
    splits, words = _query_words(run)
    rows = row_numbers(splits)
    return np.bincount(rows, frequencies[words], minlength=len(splits) - 1)


def halves(frequencies):
    """The rows of the frequent and of the infrequent half of the queries, by kind."""
    order = np.argsort(frequencies, kind="stable")
    middle = len(order) // 2
    return dict(zip(KINDS, (np.sort(order[middle:]), np.sort(order[:middle])), strict=True))


def pick(frequencies, each, seed=0):
    """So many random queries of each half: pairs (kind, row)."""
    generator = np.random.default_rng(seed)
    return [
        (kind, int(row))
        for kind, rows in halves(frequencies).items()
        for row in generator.choice(rows, min(each, len(rows)), replace=False)
    ]


def precision_by_half(run, ids, frequencies, k=TOP):
    """P@1 and P@k of predictions [Q, width] on each half, in percent."""
    truth = true_labels(run)
    found = {}
    for kind, rows in halves(frequencies).items():
        hits = metrics.hits(ids[rows], *csr_rows(*truth, rows))
        found[kind] = {f"P@{at}": float(100 * metrics.precision_at(hits, at).mean())
                       for at in (1, k)}  # fmt: skip
    return found


def describe(run, chosen, predictions, texts=None, top=TOP):
    """SampleQueries of `chosen` (kind, row) pairs; `predictions` are ids [Q, k] by model."""
    titles = _label_titles(run)
    rows = np.array([row for _, row in chosen])
    splits, labels = csr_rows(*true_labels(run), rows)
    words = texts or query_words(run, rows.tolist())
    samples = []
    for i, (kind, row) in enumerate(chosen):
        true = labels[splits[i] : splits[i + 1]]
        shown = {
            model: [(titles(label), bool(label in true)) for label in ids[row, :top] if label >= 0]
            for model, ids in predictions.items()
        }
        names = [titles(label) for label in true]
        samples.append(SampleQuery(row, kind, words[row], len(true), shown, names))
    return samples


def _label_titles(run):
    if not run.paths.label_titles.exists():
        return lambda label: f"label {label}"
    titles = run.paths.label_titles.read_text(encoding="utf-8").split("\n")
    return lambda label: titles[label]


def _query_words(run):
    """The words of all test queries, CSR: splits [Q + 1], ids."""
    shards = range(run.summary["test"]["shards"])
    pieces = [read_arrays(run.paths.rows("test", shard), "preprocess.py") for shard in shards]
    counts = np.concatenate([np.diff(piece["feature_splits"]) for piece in pieces])
    words = np.concatenate([piece["features"] for piece in pieces])
    return row_splits(counts), words


def query_words(run, rows):
    """Known words of queries, the rarest first, where their texts are not at hand: by row."""
    vocabulary = Vocabulary.load(run.paths.vocabulary).words
    splits, words = csr_rows(*_query_words(run), np.asarray(rows))
    return {
        row: " ".join(vocabulary[word] for word in words[splits[i] : splits[i + 1]][::-1])
        for i, row in enumerate(rows)
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
