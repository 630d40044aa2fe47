"""Answers to queries (§3.3), one or many at a time, from mapped weights and without TensorFlow."""

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solar_tf.datasets.arrays import as_inputs
from solar_tf.datasets.vocabulary import Vocabulary
from solar_tf.errors import UserError
from solar_tf.retrieval import ranking
from solar_tf.retrieval.encoder import FEW, Inputs, probabilities, probabilities_of_few
from solar_tf.retrieval.label_table import Labels, read_attributes
from solar_tf.run.changes import Delta, read_delta
from solar_tf.run.directory import Run, open_run, searchable
from solar_tf.run.weights import load_stored, verify_weights, weight_shapes
from solar_tf.runtime.console import say, table

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


class _State(NamedTuple):
    """What a search works on: replaced as a whole, so that it never changes under its hands."""

    delta: Delta
    models: list[dict[str, NDArray]]
    labels: Labels


class Searcher:
    """A trained run, ready to be asked; any number of threads may share one."""

    def __init__(
        self,
        run: Run,
        chunks: Sequence[int],
        threads: int | None = None,
        verified: bool = True,  # False for who wants to start at once and calls `verify` later
        attributes: str | os.PathLike[str] | None = None,  # a file, in place of the run's own
    ):
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
        delta = read_delta(run)
        self._attributes = read_attributes(run, delta, attributes)
        self._state = self._load(delta, verified)

    def _load(self, delta: Delta, verified: bool = True) -> "_State":
        shapes = weight_shapes(self.run.config, self.run.input_dim)
        folders = [delta.weights(self.run, chunk) for chunk in self.chunks]
        models = [load_stored(folder, shapes, verified=verified) for folder in folders]
        labels = Labels.load(self.run, self.chunks, delta, self._attributes)
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
    def labels(self) -> Labels:
        """The labels as they are now."""
        return self._state.labels

    @property
    def num_labels(self) -> int:
        """All labels that ever were, those removed included: every label is below it."""
        return self._state.labels.num_labels

    def title(self, label: int) -> str | None:
        """The title of a label, if it has one."""
        return self._state.labels.title(label)

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
        chunks = zip(self.chunks, self._state.models, strict=True)
        return np.concatenate([probabilities_of_few(model, inputs, c) for c, model in chunks])

    def top_buckets(self, inputs: Inputs, m: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The m likeliest buckets of every query, and their probabilities: [n, K, m]."""
        floor = ranking.EVIDENCE_FLOOR
        return self._weights(self._state.models, inputs, m, "probability", floor)

    def loads(self) -> NDArray[np.int64]:
        """How many labels every bucket holds now, [K, B]."""
        offsets = self._state.labels.offsets.astype(np.int64)
        return offsets[:, 1:] - offsets[:, :-1]

    # What comes out.

    def rank(
        self,
        inputs: Inputs,
        k: int = 10,
        m: int | None = 100,
        score: str = "evidence",
        floor: float = ranking.EVIDENCE_FLOOR,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The k best labels of every query: ids [n, k] padded with -1, scores [n, k].

        m is the number of buckets kept of each chunk; None for all of them (SOLAR-full).
        """
        return self._rank(self._state, inputs, k, m, score, floor, None, False)[:2]

    def _rank(self, state, inputs, k, m, score, floor, limits, explain):
        """The third result, if asked for, is what each chunk adds to each score, [n, k, K]."""
        labels, config = state.labels, self.run.config
        m = None if m is None else min(m, config.num_buckets)
        if m is not None and m < 1:
            raise UserError(f"m={m}: keep at least one bucket of each chunk")
        if k < 1:
            raise UserError(f"k={k}: ask for at least one label")
        if score not in ranking.SCORES:
            raise UserError(f"score={score!r}: choose one of {', '.join(ranking.SCORES)}")
        if not 0 < floor <= 1:
            raise UserError(f"floor={floor}: give a probability above 0")
        limits = labels.limits(limits)
        ids = np.full((inputs.num_queries, k), -1, np.int32)
        scores = np.zeros((inputs.num_queries, k), np.float32)
        terms = np.zeros((*ids.shape, len(self.chunks)), np.float32) if explain else None
        k = min(k, labels.num_labels)
        wide = config.num_buckets if m is None else 2 * m
        block = int(np.clip(BLOCK_BYTES // (4 * len(self.chunks) * wide), 1, MOST_QUERIES))
        for start in range(0, inputs.num_queries, block):
            part = inputs.part(start, min(start + block, inputs.num_queries))
            buckets, weights = self._weights(state.models, part, m, score, floor)

            def rank_part(piece, start=start, buckets=buckets, weights=weights):
                rows = slice(start + piece.start, start + piece.stop)
                if m is None:
                    of = None, weights[piece]
                    found = ranking.rank_full(of[1], labels.label_buckets, k, limits)
                else:
                    of = buckets[piece], weights[piece]
                    found = ranking.rank(*of, labels.offsets, labels.labels, k, limits)
                ids[rows, :k], scores[rows, :k] = found[:2]
                if terms is not None:
                    terms[rows, :k] = ranking.contributions(*of, labels.label_buckets, found[0])

            self._in_threads(rank_part, part.num_queries)
        ids[~inputs.known], scores[~inputs.known] = -1, 0
        return ids, scores, terms

    def _weights(self, models, inputs, m, score, floor):
        """What the buckets of a block of queries add: buckets and weights [n, K, m], or all.

        One chunk at a time, so that its weights are read once for the whole block; those of a
        few queries side by side.
        """
        num_queries, num_chunks = inputs.num_queries, len(self.chunks)
        shape = num_queries, num_chunks, m or self.run.config.num_buckets
        weights = np.empty(shape, np.float32)
        buckets = np.empty(shape, np.int32) if m else None

        def keep(place, values):
            """Those of `place` among [n, K], from probabilities [..., B]."""
            if m:
                top = ranking.top_buckets(values.reshape(-1, values.shape[-1]), m)
                buckets[place], values = (part.reshape(*values.shape[:-1], m) for part in top)
            weights[place] = ranking.score_weights(values, score, floor)

        if num_queries <= FEW:

            def encode(piece):
                chunks = zip(models[piece], self.chunks[piece], strict=True)
                found = [probabilities_of_few(model, inputs, chunk) for model, chunk in chunks]
                keep((slice(None), piece), np.stack(found, axis=1))

            self._in_threads(encode, num_chunks)
            return buckets, weights
        for i, (chunk, model) in enumerate(zip(self.chunks, models, strict=True)):
            encoded = inputs.of_chunk(chunk)
            for start in range(0, num_queries, FORWARD_QUERIES):
                stop = min(start + FORWARD_QUERIES, num_queries)
                values = probabilities(model, encoded[start:stop])

                def keep_part(piece, i=i, start=start, values=values):
                    rows = slice(start + piece.start, start + piece.stop)
                    keep((rows, i), values[piece])

                self._in_threads(keep_part, stop - start)
        return buckets, weights

    def _in_threads(self, work, count):
        """Call `work` with slices of 0 to `count`; the compiled kernels run side by side."""
        step = max(-(-count // self.threads), 1)
        pieces = [slice(start, min(start + step, count)) for start in range(0, count, step)]
        others = [self._pool.submit(work, piece) for piece in pieces[1:]]
        work(pieces[0])
        for other in others:
            other.result()

    def search_batch(
        self,
        texts: Any,
        k: int = 10,
        m: int | None = 100,
        score: str = "evidence",
        *,
        floor: float = ranking.EVIDENCE_FLOOR,
        allow: ArrayLike | None = None,
        deny: ArrayLike | None = None,
        where: str | None = None,
        min_chunks: int = 0,
        threshold: float = 0.0,
        explain: bool = True,
    ) -> list[list[Hit]]:
        """The k best labels of every query, best first (§3.3).

        `texts` may be a CSR matrix or an array, too, where the run was trained on such. `allow`
        and `deny` are labels, or an array of N truth values; `where` has conditions on attributes,
        such as "section=web|net year>=1990" (`conditions`). `min_chunks` asks for labels
        found in so many chunks, `threshold` for scores that reach it. Without `explain`, hits say
        nothing of their chunks. A query without a known word has no hits.
        """
        state, inputs = self._state, self.inputs(texts)
        labels = state.labels
        limits = None
        filtered = any(choice is not None for choice in (allow, deny, where))
        if filtered or min_chunks > 0 or threshold > 0:
            limits = ranking.Limits(labels.mask(allow, deny, where), min_chunks, threshold)
        ids, scores, terms = self._rank(state, inputs, k, m, score, floor, limits, explain)
        counts = np.count_nonzero(ids >= 0, axis=1)
        columns = [ids.tolist(), scores.tolist(), terms.tolist() if explain else ids]
        return [
            [
                Hit(
                    label,
                    labels.title(label),
                    value,
                    sum(term > 0 for term in why) if explain else None,
                    tuple(why) if explain else (),
                )
                for label, value, why in zip(
                    *(column[row][:count] for column in columns), strict=True
                )
            ]
            for row, count in enumerate(counts)
        ]

    def search(self, text: str, **options: Any) -> list[Hit]:
        """The best labels of one text; `options` are those of `search_batch`."""
        return self.search_batch([text], **options)[0]

    def neighbours(self, label: int, **options: Any) -> list[Hit]:
        """The labels that the title of `label` finds, itself left out."""
        title = self.title(label)
        if title is None:
            raise UserError(f"label {label} has no title to search by")
        # One more than asked for: it finds itself, as a rule.
        k = options.pop("k", 10)
        found = self.search(title, k=k + 1, **options)
        return [hit for hit in found if hit.label != label][:k]


def _as_csr(array):
    import scipy.sparse

    return scipy.sparse.csr_matrix(array)


def open_searcher(
    root: Any,
    num_chunks: int | None = None,
    attributes: str | os.PathLike[str] | None = None,
    grouped: bool = True,
) -> Searcher:
    """The run at `root` with all its chunks, or the first so many; attributes from a file."""
    run = open_run(searchable(root))
    return Searcher(run, run.choose_chunks(num_chunks, grouped), attributes=attributes)


def answer(
    root: Any, text: str, num_chunks: int | None = None, grouped: bool = True, **options: Any
) -> list[Hit]:
    """Print the best labels of one text as a table; `options` are those of `search_batch`."""
    searcher = open_searcher(root, num_chunks, grouped=grouped)
    found = searcher.search(text, **options)
    if not found and searcher.inputs([text]).known.all():
        raise UserError(f"nothing is found for {text!r} within these limits: widen them")
    if not found:
        raise UserError(f"no word of {text!r} is in the run's vocabulary: try other words")
    rows = [
        (i, hit.label, hit.title or "-", f"{hit.score:.3f}", hit.chunks)
        for i, hit in enumerate(found, 1)
    ]
    say(table(("", "label", f"title, for {text!r}", "score", "chunks"), rows))
    return found
