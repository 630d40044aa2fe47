"""Changes of a run's catalogue since it was trained: labels added and removed, weights tuned.

Every change is a segment, a file that is never changed again. The manifest lists the segments that
count; a change takes place when the manifest is replaced. So a writer can be killed anywhere, and
readers need no lock. Labels keep their numbers for ever: new ones follow the last, and those of
removed labels are not used again.
"""

import contextlib
import json
from dataclasses import dataclass, field

import numpy as np

from solar_tf.errors import UserError
from solar_tf.run.checksums import are_facts, file_facts, verify
from solar_tf.run.files import (
    delete_folder,
    read_arrays,
    read_json,
    sweep,
    write_arrays,
    write_json,
)
from solar_tf.run.index import InvertedIndex
from solar_tf.run.locks import try_lock
from solar_tf.run.remote import name_in_mirrors

FORMAT = 1
TRIES = 5  # of a reader, while others compact the segments that it reads
COMMAND = "solar labels"
MOST_LABELS = 2**31 - 1


@dataclass(frozen=True)
class Delta:
    """All changes up to some moment."""

    num_base: int  # labels that the run was trained with
    titles: bytes  # of the labels added, a line of UTF-8 each
    buckets: np.ndarray  # int32 [K, n], of the labels added
    removed: np.ndarray  # int32, ascending
    attributes: dict = field(default_factory=dict)  # {label: {name: text}}, of labels added
    tuned: int | None = None  # the number of the tuned weights, if there are any
    segments: dict = field(default_factory=dict)  # facts of the files, by name
    next: int = 1  # number of the next segment

    @property
    def num_added(self):
        return self.buckets.shape[1]

    @property
    def num_labels(self):
        """All labels that ever were, those removed included: every label is below it."""
        return self.num_base + self.num_added

    @property
    def key(self):
        """Differs between any two moments of a run."""
        return [sorted(self.segments.items()), self.tuned]

    def extend(self, index, chunk):
        """The index of a chunk with the labels that were added (§3.1)."""
        added = self.buckets[chunk]
        if not len(added):
            return index
        order = np.argsort(added, kind="stable")
        # New labels are larger than all others: each goes to the end of its bucket.
        places = index.offsets[added[order] + 1].astype(np.int64)
        labels = np.insert(index.labels, places, (self.num_base + order).astype(np.int32))
        sizes = np.bincount(added, minlength=index.num_buckets)
        offsets = index.offsets.copy()
        offsets[1:] += np.cumsum(sizes).astype(np.uint32)
        return InvertedIndex(offsets, labels)

    def allowed(self):
        """Which labels may be found, bool [N]; None for all."""
        if not len(self.removed):
            return None
        allowed = np.ones(self.num_labels, bool)
        allowed[self.removed] = False
        return allowed

    def weights(self, run, chunk):
        """The folder of a chunk's weights: as trained, or as tuned since."""
        if self.tuned is None:
            return run.paths.chunk(chunk)
        return run.paths.tuned_chunk(self.tuned, chunk)


def read_delta(run, remember=True):
    """The changes of a run up to now; most runs have none.

    Files are verified first, unless they are remembered as verified.
    """
    content = _read_manifest(run)
    for _ in range(TRIES):
        try:
            return _read_segments(run, content, remember)
        except UserError:
            # Compaction deletes segments that a reader of the old manifest still wants.
            before, content = content, _read_manifest(run)
            if content == before:
                raise
    raise UserError(f"{run.paths.catalogue}: changes faster than it can be read: try again")


def _read_manifest(run):
    path = run.paths.catalogue_manifest
    remedy = "restore it from a copy; deleting RUN/catalogue loses the added labels"
    content = read_json(path, remedy)
    if content is None:
        return {"format": FORMAT, "segments": {}, "next": 1, "tuned": None}
    sound = (
        isinstance(content, dict)
        and content.keys() == {"format", "segments", "next", "tuned"}
        and content["format"] == FORMAT
        and are_facts(content["segments"])
        and type(content["next"]) is int
        and (content["tuned"] is None or type(content["tuned"]) is int)
    )
    if not sound:
        raise UserError(f"{path}: not a catalogue of format {FORMAT}: {remedy}")
    return content


def _read_segments(run, content, remember):
    """Put the segments of a manifest together, trusting none of them."""
    num_base, config = run.dataset["num_labels"], run.config
    verify(run.paths.root, content["segments"], "restore it from a copy", remember)
    titles, buckets = [], [np.zeros((config.num_chunks, 0), np.int32)]
    removed, attributes = np.zeros(0, np.int32), {}
    num_labels = num_base
    for name in content["segments"]:
        path = run.paths.root / name
        part = read_arrays(path, COMMAND)
        with _explained(path):
            added, gone = part["buckets"], part["removed"]
            lines = part["titles"].tobytes()
            lines.decode()
            of_labels = _read_attributes(part, num_labels, added.shape[-1])
            fits = (
                part["first"].item() == num_labels
                and added.dtype == gone.dtype == np.int32
                and added.shape == (config.num_chunks, lines.count(b"\n"))
                and (lines[-1:] == b"\n" or not lines)
                and gone.ndim == 1
                and (added >= 0).all()
                and (added < config.num_buckets).all()
                and (gone >= 0).all()
                and (gone < num_labels + added.shape[1]).all()
                and num_labels + added.shape[1] <= MOST_LABELS
            )
            if not fits:
                raise ValueError
        num_labels += added.shape[1]
        titles.append(lines)
        buckets.append(added)
        removed = np.union1d(removed, gone).astype(np.int32)
        attributes |= of_labels
    return Delta(
        num_base, b"".join(titles), np.concatenate(buckets, axis=1), removed, attributes,
        content["tuned"], content["segments"], content["next"],
    )  # fmt: skip


def _read_attributes(part, first, count):
    """The attributes of the labels that a segment adds; most segments have none."""
    if "attributes" not in part:
        return {}
    rows = json.loads(part["attributes"].tobytes())
    rows = {int(label): row for label, row in rows.items()}
    texts = [text for row in rows.values() for pair in row.items() for text in pair]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError
    if rows and not first <= min(rows) <= max(rows) < first + count:
        raise ValueError
    return rows


@contextlib.contextmanager
def _explained(path):
    try:
        yield
    except (KeyError, ValueError, UnicodeDecodeError, AttributeError):
        raise UserError(f"{path}: does not fit this run's catalogue: restore it from a copy")


@contextlib.contextmanager
def changing(run):
    """Hold the catalogue's lock and yield the Delta, for one change."""
    if name_in_mirrors(run.paths.root):
        raise UserError(
            f"{run.paths.root}: the mirror of a run in a store: solar pull it to a folder, change "
            "that, and push it"
        )
    with try_lock(run.paths.catalogue_lock) as free:
        if not free:
            raise UserError(f"{run.paths.root}: its catalogue is being changed: try again")
        delta = read_delta(run)
        sweep(run.paths.catalogue)
        _clear(run, delta)
        yield delta


def _clear(run, delta):
    """Delete segments and weights that do not count, left by killed writers or compaction."""
    for path in run.paths.catalogue.glob("segment_*.npz"):
        if run.paths.name_of(path) not in delta.segments:
            path.unlink(missing_ok=True)
    for folder in run.paths.tuned_folder.glob("tuning_*"):
        if delta.tuned is None or folder != run.paths.tuned(delta.tuned):
            delete_folder(folder)


def append(run, delta, titles=(), buckets=None, removed=(), attributes=None):
    """Add a segment to the Delta that `changing` gave: new labels, or labels removed."""
    if buckets is None:
        buckets = np.zeros((run.config.num_chunks, 0), np.int32)
    lines = "".join(f"{one_line(title)}\n" for title in titles).encode()
    segments = dict(delta.segments)
    first = delta.num_labels
    segments |= _write_segment(run, delta.next, first, lines, buckets, removed, attributes)
    _write_manifest(run, segments, delta.next + 1, delta.tuned)


def one_line(title):
    """A title as the files keep it."""
    return " ".join(title.splitlines())


def compact(run):
    """Replace all segments by one; returns how many there were."""
    with changing(run) as delta:
        if len(delta.segments) > 1:
            segment = _write_segment(
                run, delta.next, delta.num_base,
                delta.titles, delta.buckets, delta.removed, delta.attributes,
            )  # fmt: skip
            _write_manifest(run, segment, delta.next + 1, delta.tuned)
            _clear(run, read_delta(run))
        return len(delta.segments)


def use_tuned(run, delta, number):
    """Replace the weights in use by the tuned weights of this number."""
    _write_manifest(run, delta.segments, max(delta.next, number + 1), number)
    _clear(run, read_delta(run))


def _write_segment(run, number, first, lines, buckets, removed, attributes=None):
    path = run.paths.catalogue_segment(number)
    arrays = {
        "first": np.int64(first),
        "titles": np.frombuffer(lines, np.uint8),
        "buckets": np.asarray(buckets, np.int32),
        "removed": np.asarray(removed, np.int32),
    }
    if attributes:
        arrays["attributes"] = np.frombuffer(json.dumps(attributes).encode(), np.uint8)
    write_arrays(path, arrays)
    return {run.paths.name_of(path): file_facts(path)}


def _write_manifest(run, segments, number, tuned):
    content = {"format": FORMAT, "segments": segments, "next": number, "tuned": tuned}
    write_json(run.paths.catalogue_manifest, content)
