"""FastXML's trees (Prabhu and Varma, KDD 2014) with propensity-weighted labels, compiled.

A node's rows are parted so that ranking the labels of each side by itself gains most nDCG;
an L1 logistic separator learns the parting, and its prediction is the split. Cost: a level of
a tree takes O(nnz of inputs and labels) for each pass, and there are at most `max_depth` levels.
"""

import numpy as np

from solar_tf.baselines.kernels.logistic import fit_l1, transpose
from solar_tf.runtime.compiled import compiled

PARTING_PASSES = 50  # it settles in about five
LEAST_GAIN = 1e-6


@compiled
def _rank_side(side, sides, rows, ideals, label_splits, labels, weights, discounts, gains, touched):
    """gains [N] becomes the discount of each label's rank among the rows of one side.

    Returns how many labels the side has; `touched` lists them.
    """
    count = 0
    for i in range(len(rows)):
        if sides[i] == side:
            for at in range(label_splits[rows[i]], label_splits[rows[i] + 1]):
                label = labels[at]
                if gains[label] == 0:
                    touched[count] = label
                    count += 1
                gains[label] += ideals[i] * weights[label]
    order = np.argsort(-gains[touched[:count]], kind="mergesort")  # stable: ties go one way
    for rank in range(count):
        gains[touched[order[rank]]] = discounts[rank]
    return count


@compiled
def part_rows(rows, ideals, label_splits, labels, weights, discounts, scratch, touched):
    """Sides int8 [n], 0 or 1, that a ranking of labels per side gains most from.

    Starts at random and alternates: rank the labels of each side by their weighted counts, then
    send each row to the side that ranks its labels higher, until nothing gains. A row's gain is
    its DCG times `ideals` [n]. `scratch` and `touched` are of [2, N]; the first is zeros before
    and after.
    """
    num_rows = len(rows)
    sides = (np.random.random(num_rows) < 0.5).astype(np.int8)
    best = -1.0
    for _ in range(PARTING_PASSES):
        counts = np.zeros(2, np.int64)
        for side in range(2):
            counts[side] = _rank_side(
                side, sides, rows, ideals, label_splits, labels, weights, discounts,
                scratch[side], touched[side],
            )  # fmt: skip
        gained, changed = 0.0, 0
        for i in range(num_rows):
            left = right = 0.0
            for at in range(label_splits[rows[i]], label_splits[rows[i] + 1]):
                left += weights[labels[at]] * scratch[0, labels[at]]
                right += weights[labels[at]] * scratch[1, labels[at]]
            gained += ideals[i] * max(left, right)
            side = sides[i] if left == right else np.int8(right > left)
            changed += side != sides[i]
            sides[i] = side
        for side in range(2):
            scratch[side][touched[side, : counts[side]]] = 0
        gained /= num_rows
        if not changed or gained - best < LEAST_GAIN:
            break
        best = gained
    return sides


@compiled
def separate(rows, sides, splits, columns, values, places, touched, cost, bias, passes, tolerance):
    """An L1 logistic separator of the two sides: columns, weights and the bias's weight."""
    used, starts, members, entries = transpose(rows, splits, columns, values, places, touched)
    ones = sides.sum()
    signs = np.where(sides == 1, 1.0, -1.0)
    # Both sides weigh the same, or the smaller would be given up.
    costs = np.where(sides == 1, cost * len(rows) / ones, cost * len(rows) / (len(rows) - ones))
    weights = fit_l1(starts, members, entries, signs, costs, bias, passes, tolerance)
    places[touched[:used]] = -1
    kept = np.flatnonzero(weights[:used])
    return touched[kept].copy(), weights[kept].astype(np.float32), np.float32(weights[used] * bias)


@compiled
def _append(splits, columns, values, row, entries):
    """Append row `row` to CSR arrays; returns columns and values, longer if they were full."""
    first, last = splits[row], splits[row] + len(entries[0])
    if last > len(columns):  # at least double them
        columns = np.append(columns, np.empty(last, columns.dtype))
        values = np.append(values, np.empty(last, values.dtype))
    splits[row + 1] = last
    columns[first:last], values[first:last] = entries
    return columns, values


@compiled
def divide(order, start, stop, splits, columns, values, dense, bias):
    """Part order[start:stop] by dense @ x + bias > 0, the rest first; returns the border."""
    kept = np.empty(stop - start, order.dtype)
    border, above = start, 0
    for at in range(start, stop):
        row = order[at]
        total = bias
        for k in range(splits[row], splits[row + 1]):
            total += dense[columns[k]] * values[k]
        if total > 0:
            kept[above] = row
            above += 1
        else:
            order[border] = row
            border += 1
    order[border:stop] = kept[:above]
    return border


@compiled
def _leaf(rows, label_splits, labels, weights, most, scores, touched):
    """The best labels of a leaf by their mean weight, and these; `scores` [N] stays zeros."""
    count = 0
    for row in rows:
        for at in range(label_splits[row], label_splits[row + 1]):
            if scores[labels[at]] == 0:
                touched[count] = labels[at]
                count += 1
            scores[labels[at]] += weights[labels[at]]
    found = np.sort(touched[:count])
    order = np.argsort(-scores[found], kind="mergesort")[:most]
    values = (scores[found[order]] / len(rows)).astype(np.float32)
    scores[found] = 0
    return found[order], values


@compiled
def grow_tree(
    splits, columns, values, num_features, label_splits, labels, weights,
    seed, max_leaf, leaf_labels, max_depth, cost, bias, passes, tolerance,
):  # fmt: skip
    """One tree on all rows.

    Returns children int32 [M, 2] (-1 at leaves), biases [M], the separators as CSR (splits
    [M + 1], columns, values) and the leaves' labels as CSR (splits [M + 1], labels, scores).
    """
    np.random.seed(seed)
    num_rows, num_labels = len(splits) - 1, len(weights)
    discounts = 1 / np.log2(np.arange(2, num_labels + 2))
    best_gains = np.append(np.inf, np.cumsum(discounts))  # of rows with 0, 1, ... labels
    ideals = 1 / best_gains[np.diff(label_splits)]
    scratch = np.zeros((2, num_labels))
    touched = np.empty((2, num_labels), np.int32)
    places = np.full(num_features, -1, np.int32)
    used = np.empty(num_features, np.int32)
    dense = np.zeros(num_features, np.float32)
    order = np.arange(num_rows)
    most = 2 * num_rows + 1  # nodes of a binary tree whose leaves are not empty
    children = np.full((most, 2), -1, np.int32)
    biases = np.zeros(most, np.float32)
    weight_splits = np.zeros(most + 1, np.int64)
    weight_columns, weight_values = np.empty(1024, np.int32), np.empty(1024, np.float32)
    leaf_splits = np.zeros(most + 1, np.int64)
    leaf_ids, leaf_scores = np.empty(1024, np.int32), np.empty(1024, np.float32)
    nothing = np.empty(0, np.int32), np.empty(0, np.float32)
    # Nodes are numbered as the stack gives them out, and their arrays grow in that order.
    stack = [(0, num_rows, 0, -1, 0)]  # start, stop, depth, parent, side
    nodes = 0
    while len(stack):
        start, stop, depth, parent, child = stack.pop()
        node = nodes
        nodes += 1
        if parent >= 0:
            children[parent, child] = node
        rows = order[start:stop]
        border = start
        if len(rows) > max_leaf and depth < max_depth:
            sides = part_rows(
                rows, ideals[rows], label_splits, labels, weights, discounts, scratch, touched
            )
            if 0 < sides.sum() < len(rows):
                at, what, constant = separate(
                    rows, sides, splits, columns, values, places, used,
                    cost, bias, passes, tolerance,
                )  # fmt: skip
                dense[at] = what
                border = divide(order, start, stop, splits, columns, values, dense, constant)
                dense[at] = 0
        if start < border < stop:
            biases[node] = constant
            separator, leaf = (at, what), nothing
            stack.append((border, stop, depth + 1, node, 1))
            stack.append((start, border, depth + 1, node, 0))
        else:
            separator, leaf = nothing, _leaf(
                order[start:stop], label_splits, labels, weights, leaf_labels,
                scratch[0], touched[0],
            )  # fmt: skip
        weight_columns, weight_values = _append(
            weight_splits, weight_columns, weight_values, node, separator
        )
        leaf_ids, leaf_scores = _append(leaf_splits, leaf_ids, leaf_scores, node, leaf)
    return (
        children[:nodes].copy(), biases[:nodes].copy(), weight_splits[: nodes + 1].copy(),
        weight_columns[: weight_splits[nodes]].copy(), weight_values[: weight_splits[nodes]].copy(),
        leaf_splits[: nodes + 1].copy(), leaf_ids[: leaf_splits[nodes]].copy(),
        leaf_scores[: leaf_splits[nodes]].copy(),
    )  # fmt: skip


@compiled
def find_leaves(
    first, last, splits, columns, values, num_features, roots, children, biases, weight_splits,
    weight_columns, weight_values, leaves,
):  # fmt: skip
    """leaves [T, n] of the trees first to last become the leaf of each row.

    Rows go down together, so that a separator is spread out once for all that it divides.
    """
    dense = np.zeros(num_features, np.float32)
    for tree in range(first, last):
        order = np.arange(len(splits) - 1)
        stack = [(0, len(order), roots[tree])]
        while len(stack):
            start, stop, node = stack.pop()
            if children[node, 0] < 0:
                leaves[tree, order[start:stop]] = node
                continue
            at = weight_columns[weight_splits[node] : weight_splits[node + 1]]
            dense[at] = weight_values[weight_splits[node] : weight_splits[node + 1]]
            border = divide(order, start, stop, splits, columns, values, dense, biases[node])
            dense[at] = 0
            if border > start:
                stack.append((start, border, children[node, 0]))
            if border < stop:
                stack.append((border, stop, children[node, 1]))
