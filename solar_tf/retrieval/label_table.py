"""The labels of a run as searching needs them: stacked indexes, titles, and who may be found."""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solar_tf.errors import UserError
from solar_tf.retrieval.attributes import Attributes
from solar_tf.retrieval.ranking import Limits
from solar_tf.run.changes import Delta
from solar_tf.run.directory import Run
from solar_tf.run.index import open_index


class Titles:
    """Titles by number, one a line of UTF-8; decoded when they are asked for."""

    def __init__(self, data: bytes):
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
    """The attributes in a file, or those in the run, if there are any, as far as that goes."""
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


class Labels:
    """The labels at one moment: never changed, but replaced as a whole."""

    def __init__(
        self,
        offsets: NDArray[np.uint32],  # [K, B + 1]
        labels: NDArray[np.int32],  # [K, N]
        titles: Titles | None,
        new_titles: Titles,  # of the last labels, those that were added
        allowed: NDArray[np.bool_] | None = None,  # [N], unless all labels are
        attributes: Attributes | None = None,
    ):
        self.offsets, self.labels = offsets, labels
        self.titles, self.new_titles, self.allowed = titles, new_titles, allowed
        self.attributes = attributes
        self._label_buckets: NDArray | None = None
        self._lock = threading.Lock()

    @classmethod
    def load(
        cls,
        run: Run,
        chunks: Sequence[int],
        delta: Delta,
        attributes: Attributes | None = None,
    ) -> "Labels":
        """Read the indexes and titles of a run, and add the changes since."""

        def read(chunk):
            return delta.extend(open_index(run, chunk), chunk)

        with ThreadPoolExecutor(2) as pool:
            indexes = list(pool.map(read, chunks))
        titles = None
        if run.paths.label_titles.exists():
            titles = Titles(run.paths.label_titles.read_bytes())
        return cls(
            np.stack([index.offsets for index in indexes]),
            np.stack([index.labels for index in indexes]),
            titles,
            Titles(delta.titles),
            delta.allowed(),
            with_changes(attributes, delta),
        )

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
                buckets = np.empty(self.labels.shape, dtype)
                numbers = np.arange(num_buckets, dtype=dtype)
                for row, offsets, labels in zip(buckets, self.offsets, self.labels, strict=True):
                    row[labels] = np.repeat(numbers, np.diff(offsets))
                self._label_buckets = buckets
            return self._label_buckets

    def title(self, label: int) -> str | None:
        """None where labels have no titles."""
        if not 0 <= label < self.num_labels:
            raise UserError(f"label {label} is not within 0 and {self.num_labels - 1}")
        new = label - (self.num_labels - len(self.new_titles))
        if new >= 0:
            return self.new_titles[new]
        return self.titles[label] if self.titles else None

    def mask(
        self,
        allow: ArrayLike | None = None,
        deny: ArrayLike | None = None,
        where: str | None = None,
    ) -> NDArray[np.bool_]:
        """Who may be found, bool [N].

        The first two arguments are labels, or N truth values; `where` has conditions on attributes.
        """
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

    def limits(self, limits: Limits | None) -> Limits | None:
        """The limits of a search, without the labels that were removed."""
        if self.allowed is None:
            return limits
        if limits is None:
            return Limits(self.allowed)
        return limits._replace(allowed=limits.allowed & self.allowed)
