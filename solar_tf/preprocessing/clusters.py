"""Balanced clusters: spherical 2-means, again and again, on sparse or dense rows.

No cluster outgrows the others, so that what is done within clusters stays linear in the rows.
Cost: O(nnz) for each of the log2(count) levels, times the passes.
"""

import numpy as np
import scipy.sparse as sp

PASSES = 10


def balanced_clusters(rows, count, generator):
    """Part unit rows [n, F] into `count` clusters of sizes that differ by rounding only.

    Returns splits [count + 1] and the row numbers in cluster order: cluster c has the rows
    order[splits[c]:splits[c + 1]].
    """
    num_rows = rows.shape[0]
    order = np.arange(num_rows)
    splits = np.zeros(count + 1, np.int64)
    splits[count] = num_rows
    stack = [(0, count, 0, num_rows)]  # clusters first to last take order[start:stop]
    while stack:
        first, last, start, stop = stack.pop()
        if last - first == 1:
            continue
        middle = (first + last) // 2
        border = start + round((stop - start) * (middle - first) / (last - first))
        part = order[start:stop]
        order[start:stop] = part[_halve(rows[part], border - start, generator)]
        splits[middle] = border
        stack += [(first, middle, start, border), (middle, last, border, stop)]
    return splits, order


def _halve(rows, size, generator):
    """An order of the rows that puts the `size` rows of one cluster first."""
    num_rows = rows.shape[0]
    if size in (0, num_rows):
        return np.arange(num_rows)
    centres = _dense(rows[generator.choice(num_rows, 2, replace=False)])
    order = None
    for _ in range(PASSES):
        lean = np.asarray(rows @ (centres[0] - centres[1])).ravel()
        before, order = order, np.argpartition(-lean, size - 1)
        if before is not None and np.array_equal(np.sort(before[:size]), np.sort(order[:size])):
            break
        side = np.zeros(num_rows, np.float32)
        side[order[:size]] = 1
        first = np.asarray(rows.T @ side).ravel()
        second = np.asarray(rows.T @ (1 - side)).ravel()
        centres = np.stack([c / max(np.linalg.norm(c), 1e-9) for c in (first, second)])
    return order


def _dense(rows):
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)
