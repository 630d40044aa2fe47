"""What the tests of the readers share: files of every format, and errors of one line."""

import gzip
import json
import lzma

import numpy as np
import pytest
import scipy.sparse as sp

from solar_tf.datasets import open_source
from solar_tf.errors import UserError

PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


def write(folder, data, name="train.txt"):
    """The path of a new file, packed as its name says."""
    path = folder / name
    raw = data if isinstance(data, bytes) else data.encode()
    path.write_bytes(PACK.get(path.suffix, bytes)(raw))
    return str(path)


def read(path, *format, rows_per_block=2, **options):
    """All rows of a file."""
    return open_source(path, *format, **options).read(rows_per_block)


def edited(data, edits):
    """The bytes with some replaced: `edits` are places and what is put there."""
    for place, new in edits:
        place %= len(data)
        data = data[:place] + new + data[place + 1 :]
        data = data or b"\n"
    return data


def assert_refused(message, function, *arguments, **options):
    """The call ends in a UserError of one line that matches the message."""
    with pytest.raises(UserError, match=message) as caught:
        function(*arguments, **options)
    assert "\n" not in str(caught.value)


def label_lists(rows):
    """The labels of each row."""
    return [labels.tolist() for labels in np.split(rows.labels, rows.label_splits[1:-1])]


# Writers of a split from its features X [n, F] and its labels Y [n, N], both CSR.


def lines_of(matrix, entry, separator=" "):
    """The non-zeros of each row, as text."""
    for row in matrix:
        found = zip(row.indices.tolist(), row.data.tolist(), strict=True)
        yield separator.join(entry.format(column, value) for column, value in found)


def write_lines(folder, name, *lines):
    return write(folder, "".join(f"{line}\n" for line in lines), name)


def write_rows(folder, name, separator, X, Y, *header):
    """Lines of labels and what follows them."""
    labels = lines_of(Y, "{}", ",")
    return write_lines(folder, name, *header, *map(separator.join, zip(labels, X, strict=True)))


def write_titles(folder, split, X, Y, suffix=""):
    return write_rows(folder, f"{split}.txt{suffix}", "\t", lines_of(X, "word{}"), Y)


def write_json(folder, split, X, Y):
    rows = zip(lines_of(X, "word{}"), Y, strict=True)
    records = [
        {"uid": "x", "title": title, "content": "", "target_ind": labels.indices.tolist()}
        for title, labels in rows
    ]
    return write_lines(folder, f"{split}.json.gz", *map(json.dumps, records))


def write_xml_repo(folder, split, X, Y):
    header = f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}"
    return write_rows(folder, f"{split}.txt", " ", lines_of(X, "{}:{}"), Y, header)


def write_svmlight(folder, split, X, Y):
    return write_rows(folder, f"{split}.svm", " ", lines_of(X, "{}:{}"), Y)


def dense_lines(matrix):
    return (" ".join(map(repr, row)) for row in matrix.toarray().tolist())


def write_dense_text(folder, split, X, Y):
    header = f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}"
    return write_rows(folder, f"{split}.txt", " ", dense_lines(X), Y, header)


NAMES = {  # of features and labels in two files
    "text": ("{}_X_Xf.txt", "{}_X_Y.txt"),
    "dense": ("{}_ft_mat_dense.txt", "{}_lbl_mat.txt"),
    "npz": ("{}_X.npz", "{}_Y.npz"),
    "npy": ("{}_X.npy", "{}_Y.npz"),
}


def write_matrix(folder, name, matrix, **options):
    """A matrix in the form that its name says; returns its path."""
    path = folder / name
    if name.endswith(".npz"):
        sp.save_npz(path, matrix, **options)
    elif name.endswith(".npy"):
        np.save(path, matrix.toarray())
    else:
        rows = dense_lines(matrix) if "dense" in name else lines_of(matrix, "{}:{}")
        write_lines(folder, name, f"{matrix.shape[0]} {matrix.shape[1]}", *rows)
    return str(path)


def write_pair(folder, split, X, Y, form="text", label_form=None, **options):
    """The paths of features and labels."""
    names = NAMES[form][0], NAMES[label_form or form][1]
    X, Y = (
        write_matrix(folder, name.format(split), matrix, **options)
        for name, matrix in zip(names, (X, Y), strict=True)
    )
    return X, Y
