"""The labels of a run as searching needs them: stacked indexes, titles, attributes, filters."""

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solar_tf.errors import UserError
from solar_tf.retrieval import ranking
from solar_tf.retrieval.attributes import Attributes
from solar_tf.retrieval.options import SearchOptions
from solar_tf.run.changes import Delta
from solar_tf.run.directory import Run
from solar_tf.run.index import InvertedIndex, open_index
from solar_tf.runtime.ragged import row_splits


class Titles:
    """Titles by number, one a line of UTF-8, decoded on access."""

    def __init__(self, data: bytes = b""):
        self._data = data
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        self._starts = np.concatenate([[0], ends + 1])

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, label: int) -> str:
        if not 0 <= label < len(self):
            raise IndexError(label)
        return self._data[self._starts[label] : self._starts[label + 1] - 1].decode()


def with_changes(attributes: Attributes | None, delta: Delta) -> Attributes | None:
    """The attributes of all labels, those added included; None where no label has any."""
    if attributes is None:
        if not delta.attributes:
            return None
        attributes = Attributes.of_columns({}, delta.num_base)
    return attributes.extended(delta.num_labels, delta.attributes)


def read_attributes(
    run: Run, delta: Delta, path: str | os.PathLike[str] | None = None
) -> Attributes | None:
    """The attributes in a file, by default the run's own; None if there are none."""
    if path is None and not run.paths.attributes.exists():
        return None
    path = path or run.paths.attributes
    attributes = Attributes.read(path)
    if not delta.num_base <= attributes.num_labels <= delta.num_labels:
        raise UserError(
            f"{path}: attributes of {attributes.num_labels:,} labels, where the run has "
            f"{delta.num_labels:,}: write a line for each, in the order of their numbers"
        )
    return attributes


def _in_memory(name, dtype, shape):
    return np.empty(shape, dtype)


class LabelTable:
    """The labels at one moment: never changed, but replaced as a whole.

    offsets [K, B + 1] and labels [K, N] are the chunks' inverted indexes, stacked: bucket b of
    chunk c holds labels[c, offsets[c, b]:offsets[c, b + 1]]. `allowed` [N] is None unless labels
    were removed.
    """

    def __init__(
        self,
        offsets: NDArray[np.uint32],
        labels: NDArray[np.int32],
        allowed: NDArray[np.bool_] | None = None,
        label_buckets: NDArray | None = None,  # made when first used
        new_array: Callable = _in_memory,
    ):
        self.offsets, self.labels, self.allowed = offsets, labels, allowed
        self.titles: Titles | None = None
        self.new_titles = Titles()  # of the last labels, those that were added
        self.attributes: Attributes | None = None
        self._label_buckets, self._new_array = label_buckets, new_array
        self._lock = threading.Lock()

    @classmethod
    def stack(
        cls, indexes: Iterable[InvertedIndex], num_chunks: int, new_array: Callable = _in_memory
    ) -> "LabelTable":
        """The table of some chunks' indexes, which are read one at a time.

        Its arrays are in memory, or where `new_array` makes them.
        """
        for row, index in enumerate(indexes):
            if row == 0:
                offsets = new_array("offsets", np.uint32, (num_chunks, len(index.offsets)))
                labels = new_array("labels", np.int32, (num_chunks, index.num_labels))
            offsets[row], labels[row] = index
        return cls(offsets, labels, new_array=new_array)

    @classmethod
    def load(
        cls, run: Run, chunks: Sequence[int], delta: Delta, attributes: Attributes | None = None
    ) -> "LabelTable":
        """Read the indexes and titles of a run, and add the changes since."""
        with ThreadPoolExecutor(2) as pool:
            indexes = pool.map(lambda chunk: read_index(run, delta, chunk), chunks)
            table = cls.stack(indexes, len(chunks))
        if run.paths.label_titles.exists():
            table.titles = Titles(run.paths.label_titles.read_bytes())
        table.new_titles, table.allowed = Titles(delta.titles), delta.allowed()
        table.attributes = with_changes(attributes, delta)
        return table

    @property
    def num_labels(self) -> int:
        return self.labels.shape[1]

    @property
    def label_buckets(self) -> NDArray:
        """The bucket of every label in each chunk, [K, N]; made when it is first asked for."""
        with self._lock:
            if self._label_buckets is None:
                num_buckets = self.offsets.shape[1] - 1
                dtype = np.uint16 if num_buckets <= 2**16 else np.int32
                buckets = self._new_array("label_buckets", dtype, self.labels.shape)
                numbers = np.arange(num_buckets, dtype=dtype)
                for row, offsets, labels in zip(buckets, self.offsets, self.labels, strict=True):
                    row[labels] = np.repeat(numbers, np.diff(offsets))
                self._label_buckets = buckets
            return self._label_buckets

    @property
    def bucket_sizes(self) -> NDArray[np.int64]:
        """How many labels every bucket holds, [K, B]."""
        offsets = self.offsets.astype(np.int64)
        return offsets[:, 1:] - offsets[:, :-1]

    def title(self, label: int) -> str | None:
        """None where labels have no titles."""
        if not 0 <= label < self.num_labels:
            raise UserError(f"label {label} is not within 0 and {self.num_labels - 1}")
        new = label - (self.num_labels - len(self.new_titles))
        if new >= 0:
            return self.new_titles[new]
        return self.titles[label] if self.titles else None

    def rank(
        self,
        buckets: NDArray[np.int32] | None,
        weights: NDArray[np.float32],
        k: int,
        label_filter: ranking.LabelFilter | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
        """The k best labels of each query: ids and scores [Q, k], and candidates [Q] (§3.3).

        Buckets [Q, K, m] and what each weighs; None and the weights of all buckets [Q, K, B] for
        SOLAR-full.
        """
        if buckets is None:
            return ranking.rank_full(weights, self.label_buckets, k, label_filter)
        return ranking.rank(buckets, weights, self.offsets, self.labels, k, label_filter)

    def filter(self, options: SearchOptions) -> ranking.LabelFilter | None:
        """What the options and removals ask of a label; None if every label passes."""
        choices = options.allow, options.deny, options.where
        mask = self.allowed
        if any(choice is not None for choice in choices):
            mask = self.mask(*choices)
            if self.allowed is not None:
                mask &= self.allowed
        rest = max(options.min_chunks, 0), max(options.threshold, 0.0)
        if mask is None and not any(rest):
            return None
        return ranking.LabelFilter(self.mask() if mask is None else mask, *rest)

    def mask(
        self,
        allow: ArrayLike | None = None,
        deny: ArrayLike | None = None,
        where: str | None = None,
    ) -> NDArray[np.bool_]:
        """The labels that these `SearchOptions` let pass, bool [N]."""
        mask = np.ones(self.num_labels, bool) if allow is None else self._chosen(allow)
        if deny is not None:
            mask &= ~self._chosen(deny)
        if where is not None:
            none = Attributes.of_columns({}, self.num_labels)
            mask &= (self.attributes or none).select(where)
        return mask

    def _chosen(self, labels):
        labels = np.asarray(labels)
        if labels.dtype == bool:
            if labels.shape != (self.num_labels,):
                raise UserError(
                    f"{labels.size} truth values, where there are {self.num_labels} labels: "
                    "give one for each"
                )
            return labels.copy()
        if labels.size and (labels.ndim != 1 or labels.dtype.kind not in "iu"):
            raise UserError("labels to allow or deny must be a list of whole numbers")
        outside = (labels < 0) | (labels >= self.num_labels)
        if outside.any():
            raise UserError(f"label {labels[outside][0]} is not within 0 and {self.num_labels - 1}")
        mask = np.zeros(self.num_labels, bool)
        mask[labels.astype(np.int64)] = True
        return mask


def read_index(run: Run, delta: Delta, chunk: int) -> InvertedIndex:
    """The index of a chunk with the labels that were added (§3.1)."""
    return delta.extend(open_index(run, chunk), chunk)


# Shards: ranges of labels, each ranked by itself and merged by `ranking.merge_shards`.


def label_ranges(num_labels: int, num_shards: int) -> list[tuple[int, int]]:
    """The ranges [(low, high), ...] of labels, equal in size; none is empty."""
    num_shards = max(1, min(num_shards, num_labels))
    bounds = [num_labels * shard // num_shards for shard in range(num_shards + 1)]
    return list(itertools.pairwise(bounds))


def shard_index(index: InvertedIndex, low: int, high: int) -> InvertedIndex:
    """The inverted index of the labels low to high - 1, numbered from 0."""
    if (low, high) == (0, index.num_labels):
        return index
    inside = (index.labels >= low) & (index.labels < high)
    before = row_splits(inside)  # labels inside, before each place
    offsets = before[index.offsets].astype(np.uint32)
    return InvertedIndex(offsets, index.labels[inside] - np.int32(low))
