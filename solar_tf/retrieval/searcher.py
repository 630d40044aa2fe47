"""A trained run as a person asks it: texts in, labels and their titles out (§3.3)."""

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solar_tf.datasets.arrays import as_inputs
from solar_tf.datasets.vocabulary import Vocabulary
from solar_tf.errors import UserError
from solar_tf.retrieval.encoder import Inputs
from solar_tf.retrieval.label_table import LabelTable, read_attributes
from solar_tf.retrieval.options import SearchOptions
from solar_tf.retrieval.pipeline import Pipeline
from solar_tf.run.changes import Delta, read_delta
from solar_tf.run.directory import Run, open_run, searchable
from solar_tf.run.weights import load_stored, verify_weights, weight_shapes
from solar_tf.runtime.console import say, table


@dataclass(frozen=True, slots=True)
class Hit:
    """A label that was found, and why: `sum(evidence)` is its score, but for rounding."""

    label: int
    title: str | None
    score: float
    chunks: int | None = None  # in how many of the K chunks it was found
    evidence: tuple[float, ...] = ()  # what each of the K chunks adds to the score


class Trace(NamedTuple):
    """What a search has seen of one query."""

    labels: LabelTable  # among which it searched
    features: dict[int, float]  # the values of the query's words by their ids
    probabilities: NDArray[np.float32]  # [K, B]
    buckets: NDArray[np.int32]  # [K, m] or more, the likeliest first


class Found(NamedTuple):
    """The answer to one query, and how it was found."""

    hits: list[Hit]
    candidates: int  # labels in the kept buckets that pass the filter
    trace: Trace | None  # None unless asked for, and for a query without a known word


class _State(NamedTuple):
    """What a search works on: replaced as a whole, so it never changes during a search."""

    delta: Delta
    models: list[dict[str, NDArray]]  # the stored weights of each chunk
    labels: LabelTable


class Searcher:
    """A trained run, ready to be asked; any number of threads may share one.

    Pass verified=False to start at once; call `verify` later. `attributes` is a file to read
    instead of the run's own.
    """

    def __init__(
        self,
        run: Run,
        chunks: Sequence[int],
        threads: int | None = None,
        verified: bool = True,
        attributes: str | os.PathLike[str] | None = None,
    ):
        self.run, self.chunks = run, tuple(chunks)
        self.pipeline = Pipeline(run, self.chunks, threads)
        self.vocabulary = None
        if run.dataset["kind"] == "text":
            self.vocabulary = Vocabulary.load(run.paths.vocabulary)
        self.token_weights = None
        if run.paths.token_weights.exists():
            self.token_weights = np.load(run.paths.token_weights, allow_pickle=False)
        self._lock = threading.Lock()
        delta = read_delta(run)
        self._attributes = read_attributes(run, delta, attributes)
        self._state = self._load(delta, verified)

    def _load(self, delta: Delta, verified: bool = True) -> "_State":
        shapes = weight_shapes(self.run.config, self.run.input_dim)
        folders = [delta.weights(self.run, chunk) for chunk in self.chunks]
        models = [load_stored(folder, shapes, verified=verified) for folder in folders]
        labels = LabelTable.load(self.run, self.chunks, delta, self._attributes)
        return _State(delta, models, labels)

    def reload(self) -> bool:
        """Take up what has changed in the catalogue; returns whether anything has.

        Searches under way end with what they began with.
        """
        with self._lock:
            delta = read_delta(self.run)
            if delta.key == self._state.delta.key:
                return False
            self._state = self._load(delta)
            return True

    def verify(self) -> Iterator[int]:
        """Compare the weights in use with their checksums; yields every chunk that is done."""
        state = self._state
        for chunk, model in zip(self.chunks, state.models, strict=True):
            verify_weights(state.delta.weights(self.run, chunk), model)
            yield chunk

    @property
    def labels(self) -> LabelTable:
        """The labels as they are now."""
        return self._state.labels

    @property
    def num_labels(self) -> int:
        """All labels that ever were, removed ones included: every label is below it."""
        return self.labels.num_labels

    def title(self, label: int) -> str | None:
        """The title of a label, if it has one."""
        return self.labels.title(label)

    def loads(self) -> NDArray[np.int64]:
        """How many labels every bucket holds now, [K, B]."""
        return self.labels.bucket_sizes

    # Arrays.

    def inputs(self, X: Any) -> Inputs:
        """Texts, a CSR matrix of features or an array of numbers, as the run takes them."""
        kind, inputs = as_inputs(X)
        expected = self.run.dataset["kind"]
        if kind != expected and not (expected == "sparse" and kind == "dense"):
            words = {"text": "titles", "sparse": "sparse features", "dense": "dense features"}
            raise UserError(
                f"{self.run.paths.root}: a run of {words[expected]}, and the queries are "
                f"{words[kind]}: give {words[expected]}"
            )
        if kind == "dense" and expected == "sparse":
            import scipy.sparse

            _, inputs = as_inputs(scipy.sparse.csr_matrix(inputs))
        width = self.run.dataset["num_features"]
        if kind != "text" and inputs.shape[1] != width:
            raise UserError(f"X: {inputs.shape[1]} features, where the run has {width}")
        return Inputs(self.run, expected, inputs, self.vocabulary, self.token_weights)

    def top_buckets(self, inputs: Inputs, m: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The m likeliest buckets of every query, and their probabilities: [n, K, m]."""
        encoder = self.pipeline.encoder(inputs.num_queries)
        return self.pipeline.encode(encoder, self._state.models, inputs, m)

    def rank(
        self, inputs: Inputs, *values: Any, **options: Any
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The k best labels of every query: ids [n, k] padded with -1, scores [n, k].

        Takes `SearchOptions`. Many queries have the same rankings as in infer.py, bit for bit.
        """
        asked = SearchOptions(*values, **{"explain": False} | options)
        state = self._state
        blocks = [*self.pipeline.rank(state.models, state.labels, inputs, asked)]
        ids, scores = zip(*((block.ids, block.scores) for block in blocks), strict=True)
        return np.concatenate(ids), np.concatenate(scores)

    # Answers.

    def search_batch(self, texts: Any, *values: Any, **options: Any) -> list[list[Hit]]:
        """The k best labels of every query, best first (§3.3); takes `SearchOptions`.

        `texts` may be a CSR matrix or an array, too, where the run was trained on such. Without
        `explain`, hits say nothing of their chunks. A query without a known word has no hits.
        """
        return [found.hits for found in self._find(texts, SearchOptions(*values, **options))]

    def find(self, texts: Any, options: SearchOptions) -> list[Found]:
        """The same, with the candidates and, to `explain`, what the search has seen."""
        return [*self._find(texts, options, traced=options.explain)]

    def _find(self, texts, options, traced=False):
        (_, models, labels), inputs, query = self._state, self.inputs(texts), 0
        for block in self.pipeline.rank(models, labels, inputs, options, traced):
            arrays = block.ids, block.scores, block.evidence
            for row, columns in enumerate(zip(*(a.tolist() for a in arrays), strict=True)):
                hits = [
                    Hit(label, labels.title(label), score, *_why(terms))
                    for label, score, terms in zip(*columns, strict=True)
                    if label >= 0
                ]
                trace = None
                if traced and inputs.known[query]:
                    encoded = block.probabilities[row], block.buckets[row]
                    trace = Trace(labels, inputs.features(query), *encoded)
                yield Found(hits, int(block.candidates[row]), trace)
                query += 1

    def search(self, text: str, **options: Any) -> list[Hit]:
        """The best labels of one text; takes `SearchOptions`."""
        return self.search_batch([text], **options)[0]

    def neighbours(self, label: int, **options: Any) -> list[Hit]:
        """The labels that the title of `label` finds, itself left out."""
        title = self.title(label)
        if title is None:
            raise UserError(f"label {label} has no title to search by")
        # One more than asked for: a title usually finds its own label.
        k = options.pop("k", 10)
        found = self.search(title, k=k + 1, **options)
        return [hit for hit in found if hit.label != label][:k]


def _why(terms):
    """The chunks and the evidence of a hit, if there is any."""
    return (sum(term > 0 for term in terms), tuple(terms)) if terms else ()


def open_searcher(
    root: Any,
    num_chunks: int | None = None,
    attributes: str | os.PathLike[str] | None = None,
    grouped: bool = True,
) -> Searcher:
    """The run at `root` with all its chunks, or the first `num_chunks`."""
    run = open_run(searchable(root))
    return Searcher(run, run.choose_chunks(num_chunks, grouped), attributes=attributes)


def answer(
    root: Any, text: str, num_chunks: int | None = None, grouped: bool = True, **options: Any
) -> list[Hit]:
    """Print the best labels of one text as a table; takes `SearchOptions`."""
    searcher = open_searcher(root, num_chunks, grouped=grouped)
    found = searcher.search(text, **options)
    if not found and searcher.inputs([text]).known.all():
        raise UserError(f"nothing is found for {text!r} with these filters: widen them")
    if not found:
        raise UserError(f"no word of {text!r} is in the run's vocabulary: try other words")
    rows = [
        (i, hit.label, hit.title or "-", f"{hit.score:.3f}", hit.chunks)
        for i, hit in enumerate(found, 1)
    ]
    say(table(("", "label", f"title, for {text!r}", "score", "chunks"), rows))
    return found
