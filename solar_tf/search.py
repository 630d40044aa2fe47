"""Answers to queries (§3.3), one or many at a time, from mapped weights and without TensorFlow."""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solar_tf import retrieval
from solar_tf.console import say, table
from solar_tf.datasets.memory import as_inputs
from solar_tf.datasets.vocabulary import Vocabulary
from solar_tf.encoder import Inputs, probabilities
from solar_tf.errors import UserError
from solar_tf.labels import Labels
from solar_tf.rundir import Run, open_run
from solar_tf.weights import load_weights, weight_shapes

BLOCK_BYTES = 2.5e8  # of the buckets of the queries that are ranked together
MOST_QUERIES = 4096  # of a block
FORWARD_QUERIES = 256  # of a matrix product


@dataclass(frozen=True, slots=True)
class Hit:
    """A label that was found, and why: `sum(evidence)` is its score, but for rounding."""

    label: int
    title: str | None
    score: float
    chunks: int | None = None  # in how many of the K chunks it was found
    evidence: tuple[float, ...] = ()  # what each of the K chunks adds to the score


class Searcher:
    """A trained run, ready to be asked; any number of threads may share one."""

    def __init__(self, run: Run, chunks: Sequence[int], threads: int | None = None):
        self.run, self.chunks = run, tuple(chunks)
        self.threads = threads or len(os.sched_getaffinity(0))
        self.vocabulary = None
        if run.dataset["kind"] == "text":
            self.vocabulary = Vocabulary.load(run.paths.vocabulary)
        self.token_weights = None
        if run.paths.token_weights.exists():
            self.token_weights = np.load(run.paths.token_weights, allow_pickle=False)
        self._pool = ThreadPoolExecutor(self.threads, "search")
        self._lock = threading.Lock()
        self._load()

    def _load(self) -> None:
        shapes = weight_shapes(self.run.config, self.run.input_dim)
        self._models = [
            load_weights(self.run.paths.chunk(c), shapes, mapped=True) for c in self.chunks
        ]
        self._labels = Labels.load(self.run, self.chunks)

    @property
    def num_labels(self) -> int:
        """All labels that ever were, those removed included: every label is below it."""
        return self._labels.num_labels

    def title(self, label: int) -> str | None:
        """The title of a label, if it has one."""
        return self._labels.title(label)

    # What goes in.

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
            _, inputs = as_inputs(_as_csr(inputs))
        width = self.run.dataset["num_features"]
        if kind != "text" and inputs.shape[1] != width:
            raise UserError(f"X: {inputs.shape[1]} features, where the run has {width}")
        return Inputs(self.run, expected, inputs, self.vocabulary, self.token_weights)

    def encode(self, text: str) -> NDArray[np.float32] | None:
        """The probabilities of all buckets of a text, [K, B]; None if no word is known."""
        inputs = self.inputs([text])
        if not inputs.known.all():
            return None
        return self._probabilities(inputs)[0]

    def _probabilities(self, inputs):
        """[n, K, B] float32."""
        pairs = zip(self.chunks, self._models, strict=True)
        return np.stack([probabilities(model, inputs.of_chunk(c)) for c, model in pairs], axis=1)

    # What comes out.

    def rank(
        self,
        inputs: Inputs,
        k: int = 10,
        m: int | None = 100,
        score: str = "evidence",
        floor: float = retrieval.EVIDENCE_FLOOR,
        limits: retrieval.Limits | None = None,
        explain: bool = False,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32] | None]:
        """The k best labels of every query: ids [n, k] padded with -1, scores [n, k].

        m is the number of buckets kept of each chunk; None for all of them (SOLAR-full).
        The third result, if asked for, is what each chunk adds to each score, [n, k, K].
        """
        labels, config = self._labels, self.run.config
        m = None if m is None else min(m, config.num_buckets)
        if m is not None and m < 1:
            raise UserError(f"m={m}: keep at least one bucket of each chunk")
        if k < 1:
            raise UserError(f"k={k}: ask for at least one label")
        limits = labels.limits(limits)
        k_ranked = min(k, max(labels.num_labels, 1))
        ids = np.full((inputs.num_queries, k_ranked), -1, np.int32)
        scores = np.zeros((inputs.num_queries, k_ranked), np.float32)
        terms = np.zeros((*ids.shape, len(self.chunks)), np.float32) if explain else None
        wide = config.num_buckets if m is None else 2 * m
        block = int(np.clip(BLOCK_BYTES // (4 * len(self.chunks) * wide), 1, MOST_QUERIES))
        for start in range(0, inputs.num_queries, block):
            rows = slice(start, min(start + block, inputs.num_queries))
            part = inputs.part(rows.start, rows.stop)
            buckets, weights = self._weights(part, m, score, floor)

            def rank_part(piece, rows=rows, buckets=buckets, weights=weights):
                if m is None:
                    found = retrieval.rank_full(
                        weights[piece], labels.label_buckets, k_ranked, limits
                    )
                else:
                    found = retrieval.rank(
                        buckets[piece], weights[piece], labels.offsets, labels.labels, k_ranked,
                        limits,
                    )  # fmt: skip
                into = slice(rows.start + piece.start, rows.start + piece.stop)
                ids[into], scores[into] = found[:2]
                if terms is not None:
                    of = None if m is None else buckets[piece]
                    terms[into] = retrieval.contributions(
                        of, weights[piece], labels.label_buckets, found[0]
                    )

            self._in_threads(rank_part, part.num_queries)
        ids[~inputs.known], scores[~inputs.known] = -1, 0
        return ids, scores, terms

    def _weights(self, inputs, m, score, floor):
        """What the buckets of a block of queries add: buckets and weights [n, K, m], or all.

        One chunk at a time, so that its weights are read once for the whole block.
        """
        num_queries, num_chunks = inputs.num_queries, len(self.chunks)
        shape = num_queries, num_chunks, m or self.run.config.num_buckets
        weights = np.empty(shape, np.float32)
        buckets = np.empty(shape, np.int32) if m else None
        for i, (chunk, model) in enumerate(zip(self.chunks, self._models, strict=True)):
            encoded = inputs.of_chunk(chunk)
            for start in range(0, num_queries, FORWARD_QUERIES):
                stop = min(start + FORWARD_QUERIES, num_queries)
                values = probabilities(model, encoded[start:stop])

                def keep(piece, i=i, start=start, values=values):
                    into = slice(start + piece.start, start + piece.stop)
                    kept = values[piece]
                    if m:
                        buckets[into, i], kept = retrieval.top_buckets(kept, m)
                    weights[into, i] = retrieval.score_weights(kept, score, floor)

                self._in_threads(keep, stop - start)
        return buckets, weights

    def _in_threads(self, work, count):
        """Call `work` with slices of 0 to `count`; the compiled kernels run side by side."""
        step = max(-(-count // self.threads), 1)
        pieces = [slice(start, min(start + step, count)) for start in range(0, count, step)]
        if len(pieces) == 1:
            work(pieces[0])
        else:
            list(self._pool.map(work, pieces))

    def search_batch(
        self,
        texts: Any,
        k: int = 10,
        m: int | None = 100,
        score: str = "evidence",
        *,
        floor: float = retrieval.EVIDENCE_FLOOR,
        allow: ArrayLike | None = None,
        deny: ArrayLike | None = None,
        min_chunks: int = 0,
        threshold: float = 0.0,
        explain: bool = True,
    ) -> list[list[Hit]]:
        """The k best labels of every query, best first (§3.3).

        `texts` may be a CSR matrix or an array, too, where the run was trained on such. `allow`
        and `deny` are labels, or an array of N truth values. `min_chunks` asks for labels found
        in so many chunks, `threshold` for scores that reach it. Without `explain`, hits say
        nothing of their chunks. A query without a known word has no hits.
        """
        inputs = self.inputs(texts)
        limits = None
        if allow is not None or deny is not None or min_chunks > 0 or threshold > 0:
            limits = retrieval.Limits(self._labels.mask(allow, deny), min_chunks, threshold)
        ids, scores, terms = self.rank(inputs, k, m, score, floor, limits, explain)
        labels = self._labels
        found = []
        for row in range(len(ids)):
            count = int(np.count_nonzero(ids[row] >= 0))
            hits = []
            for i in range(count):
                label, why = int(ids[row, i]), ()
                if terms is not None:
                    why = tuple(terms[row, i].tolist())
                chunks = None if terms is None else sum(term > 0 for term in why)
                value = float(scores[row, i])
                hits.append(Hit(label, labels.title(label), value, chunks, why))
            found.append(hits)
        return found

    def search(self, text: str, **options: Any) -> list[Hit]:
        """The best labels of one text; `options` are those of `search_batch`."""
        return self.search_batch([text], **options)[0]

    def neighbours(self, label: int, **options: Any) -> list[Hit]:
        """The labels that the title of `label` finds, itself left out."""
        title = self.title(label)
        if title is None:
            raise UserError(f"label {label} has no title to search by")
        deny = np.zeros(self.num_labels, bool)
        if options.get("deny") is not None:
            deny |= ~self._labels.mask(None, options["deny"])
        deny[label] = True
        return self.search(title, **{**options, "deny": deny})


def _as_csr(array):
    import scipy.sparse

    return scipy.sparse.csr_matrix(array)


def open_searcher(root: Any, num_chunks: int | None = None) -> Searcher:
    """The run at `root` with all its chunks, or the first so many."""
    run = open_run(root)
    return Searcher(run, run.choose_chunks(num_chunks))


def answer(root: Any, text: str, num_chunks: int | None = None, **options: Any) -> list[Hit]:
    """Print the best labels of one text as a table; `options` are those of `search_batch`."""
    found = open_searcher(root, num_chunks).search(text, **options)
    if not found:
        raise UserError(f"no word of {text!r} is in the run's vocabulary: try other words")
    rows = [
        (i, hit.label, hit.title or "-", f"{hit.score:.3f}", hit.chunks)
        for i, hit in enumerate(found, 1)
    ]
    say(table(("", "label", f"title, for {text!r}", "score", "chunks"), rows))
    return found
