"""The one place where the server meets the search: a run is opened, asked, changed, verified."""

import contextlib
import itertools
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from solar_tf import catalogue
from solar_tf.errors import UserError
from solar_tf.retrieval import ranking
from solar_tf.retrieval.attributes import Attributes
from solar_tf.retrieval.options import SearchOptions
from solar_tf.retrieval.searcher import Searcher
from solar_tf.run.directory import open_run
from solar_tf.serving.explanation import explain
from solar_tf.serving.refusals import Refusal

EXAMPLES = 5


@dataclass(frozen=True)
class Answer:
    """What was found for one text."""

    query: str
    labels: list  # dicts, best first
    candidates: int | None = None
    explanation: dict | None = None

    def first(self, k):
        return replace(self, labels=self.labels[:k])


class Engine:
    """A run that is open for queries, though perhaps not verified yet."""

    def __init__(self, root, num_chunks=None, attributes=None):
        # The link is resolved now: changes belong to the run that is served, not to its successor.
        self.run = open_run(Path(root).resolve())
        if self.run.dataset["kind"] != "text":
            raise UserError(f"{root}: only a run of titles can be served, and this is of numbers")
        chunks = self.run.choose_chunks(num_chunks)
        self.searcher = Searcher(self.run, chunks, verified=False, attributes=attributes)
        self.health, self.detail = "verifying", "no chunk is verified yet"
        self.closing = threading.Event()
        self.examples = self._examples()
        self.stamp = self._catalogue_stamp()
        self.described = None, []

    def warm_up(self):
        """The first search loads the kernels' machine code: no client should wait for it."""
        text = self.searcher.vocabulary.words[:1]
        for m, min_chunks in itertools.product((100, None), (0, 1)) if text else ():
            self.search(text, 1, SearchOptions(m=m, min_chunks=min_chunks))

    def verify(self):
        """Compare all weights with their checksums, chunk by chunk; `health` tells the outcome."""
        total = len(self.searcher.chunks)
        try:
            for done, _ in enumerate(self.searcher.verify(), 1):
                self.detail = f"{done} of {total} chunks verified"
                if self.closing.is_set():
                    return
            self.health, self.detail = "ok", f"all {total} chunks verified"
        except UserError as error:
            self.health, self.detail = "damaged", str(error)

    def close(self):
        """No need to go on verifying."""
        self.closing.set()

    def facts(self):
        """What the page tells about the run."""
        config = self.run.config
        return {
            "run": self.run.paths.root.name,
            "labels": self.num_labels,
            "trained": self.run.dataset["num_labels"],
            "chunks": len(self.searcher.chunks),
            "buckets": config.num_buckets,
            "input": config.feature_dim,
            "hidden": config.hidden_dim,
            "vocabulary": len(self.searcher.vocabulary),
            "weighting": config.weighting,
            "floor": ranking.EVIDENCE_FLOOR,
            "examples": self.examples,
            "attributes": list(self.attributes.columns),
        }

    @property
    def attributes(self):
        """The attributes of the labels as they are now; without columns where there are none."""
        labels = self.searcher.labels
        return labels.attributes or Attributes.of_columns({}, labels.num_labels)

    def describe_attributes(self):
        """Names and values to choose from, counted once for every state of the labels."""
        labels = self.searcher.labels
        if self.described[0] is not labels:
            facts = labels.attributes.describe(labels.allowed) if labels.attributes else []
            self.described = labels, facts
        return self.described[1]

    def _examples(self):
        """Titles of frequent labels, as queries to try."""
        if not self.searcher.labels.titles or not self.run.paths.label_counts.exists():
            return []
        counts = np.load(self.run.paths.label_counts, allow_pickle=False)
        frequent = np.argsort(-counts, kind="stable")[: 40 * EXAMPLES]
        step = max(len(frequent) // EXAMPLES, 1)
        return [self.searcher.title(int(label)) for label in frequent[::step][:EXAMPLES]]

    @property
    def num_labels(self):
        return self.searcher.num_labels

    def title(self, label):
        self._check_labels([label])
        return self.searcher.title(label)

    def _check_labels(self, labels):
        if labels and max(labels) >= self.num_labels:
            last = self.num_labels - 1
            raise Refusal(404, "no_such_label", f"no label {max(labels)}: the last one is {last}")

    def label(self, label):
        """A label's title, and its vector (§3.1)."""
        title = self.title(label)
        buckets = self.searcher.labels.label_buckets[:, label].tolist()
        attributes = self.attributes.of(label)
        return {"label": label, "title": title, "buckets": buckets, "attributes": attributes}

    def search(self, texts, k, options):
        """An Answer for every text; the options are SearchOptions, whose k does not count."""
        self._check_health()
        self._check_labels((*(options.allow or ()), *(options.deny or ())))
        if options.where is not None:
            with _refused("where"):
                self.attributes.select(options.where)
        found = self.searcher.find(texts, replace(options, k=k))
        return [self._answer(text, of, options) for text, of in zip(texts, found, strict=True)]

    def _answer(self, text, found, options):
        hits, attributes = found.hits, self.attributes
        labels = [{"label": hit.label, "title": hit.title, "score": hit.score} for hit in hits]
        if attributes.columns:
            labels = [label | {"attributes": attributes.of(label["label"])} for label in labels]
        if not options.explain:
            return Answer(text, labels)
        explanation, chunks = explain(self.searcher, text, found, options.m)
        labels = [label | {"chunks": of} for label, of in zip(labels, chunks, strict=True)]
        return Answer(text, labels, found.candidates, explanation)

    def _check_health(self):
        if self.health == "damaged":
            raise Refusal(503, "damaged", self.detail)

    # Changes are made in another thread: searches go on with what they began with.

    def add(self, titles, how, attributes=None):
        """Add labels; returns their numbers. They can be found as soon as this returns."""
        self._check_health()
        if attributes:
            with _refused("attributes"):
                if len(attributes) != len(titles):
                    what = f"{len(attributes)} objects, where there are {len(titles)} titles"
                    raise UserError(f"{what}: give one for each title")
                for row in attributes:
                    self.attributes.row(row)
        with _conflicts_explained():
            added = catalogue.add_labels(
                self.run.paths.root, titles, how, searcher=self.searcher, attributes=attributes
            )
        self.refresh()
        return added.tolist()

    def remove(self, labels):
        """Remove labels; removing one again is no error."""
        self._check_labels(labels)
        with _conflicts_explained():
            catalogue.remove_labels(self.run.paths.root, labels)
        self.refresh()
        return sorted(set(labels))

    def refresh(self):
        """Take up what this or another process changed of the labels; True if anything did."""
        stamp = self._catalogue_stamp()
        if stamp == self.stamp:
            return False
        changed = self.searcher.reload()
        self.stamp = stamp
        return changed

    def _catalogue_stamp(self):
        """Cheap to ask for, and different once the catalogue has changed."""
        try:
            status = self.run.paths.catalogue_manifest.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns


@contextlib.contextmanager
def _refused(field):
    """A UserError is a mistake in one field of the request."""
    try:
        yield
    except UserError as error:
        message = str(error)
        fields = [{"field": field, "message": message}]
        raise Refusal(422, "invalid", f"{field}: {message}", fields) from error


@contextlib.contextmanager
def _conflicts_explained():
    """A UserError is a conflict with another change of the catalogue, which is soon done."""
    try:
        yield
    except UserError as error:
        raise Refusal(409, "conflict", str(error), retry_after=1) from error
