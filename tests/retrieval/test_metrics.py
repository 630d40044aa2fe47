import math

import numpy as np
import pytest
from conftest import open_titles, small_config
from hypothesis import given
from hypothesis import strategies as st

from solar_tf.preprocessing.stage import preprocess
from solar_tf.retrieval.metrics import (
    KS,
    MetricSums,
    evaluate,
    filter_pairs,
    filtered_labels,
    hits,
    inverse_propensity,
    precision_at,
    r_precision_at,
    true_labels,
    without_pairs,
)
from solar_tf.runtime.ragged import row_splits

NUM_LABELS, WIDTH = 12, 6
label = st.integers(0, NUM_LABELS - 1)
# A query: its ranked predictions (short ones get padded) and its true labels.
query = st.tuples(st.lists(label, max_size=WIDTH, unique=True), st.sets(label))
queries = st.lists(query, max_size=8)
weights = st.lists(st.floats(1, 50), min_size=NUM_LABELS, max_size=NUM_LABELS)


def arrays(queries):
    """Predictions [Q, WIDTH], and the truth in CSR form."""
    ids = np.full((len(queries), WIDTH), -1, dtype=np.int32)
    for row, (predicted, _) in zip(ids, queries, strict=True):
        row[: len(predicted)] = predicted
    splits = np.cumsum([0, *(len(truth) for _, truth in queries)])
    labels = [item for _, truth in queries for item in sorted(truth)]
    return ids, splits, np.array(labels, dtype=np.int32)


def slow_metrics(queries, weights, recall_k):
    """The definitions, one query and one label at a time."""
    result = {}
    for k in KS:
        precision = r_precision = ndcg = gained = best = 0
        for predicted, truth in queries:
            found = len(set(predicted[:k]) & truth)
            precision += found / k
            ranked = [weights[item] for item in predicted[:k] if item in truth]
            gained += sum(ranked)
            best += sum(sorted((weights[item] for item in truth), reverse=True)[:k])
            if truth:
                r_precision += found / min(k, len(truth))
                dcg = sum(
                    1 / math.log2(rank + 1)
                    for rank, item in enumerate(predicted[:k], start=1)
                    if item in truth
                )
                ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(truth)) + 1))
                ndcg += dcg / ideal
        count = max(len(queries), 1)
        result[f"P@{k}"] = 100 * precision / count
        result[f"RP@{k}"] = 100 * r_precision / count
        result[f"nDCG@{k}"] = 100 * ndcg / count
        result[f"PSP@{k}"] = 100 * gained / best if best else 0
    recall = sum(len(set(p[:recall_k]) & truth) / len(truth) for p, truth in queries if truth)
    result[f"R@{recall_k}"] = 100 * recall / max(len(queries), 1)
    return result


@given(queries)
def test_hits_are_set_membership(queries):
    expected = [
        [column < len(predicted) and predicted[column] in truth for column in range(WIDTH)]
        for predicted, truth in queries
    ]
    assert hits(*arrays(queries)).tolist() == expected


@given(queries, weights, st.sampled_from([2, 100]))
def test_evaluate_equals_the_definitions(queries, weights, recall_k):
    result = evaluate(*arrays(queries), np.array(weights), KS, recall_at=recall_k)
    assert result == pytest.approx(slow_metrics(queries, weights, recall_k))


@given(queries, weights, st.data())
def test_blocks_add_up_to_the_whole(queries, weights, data):
    cut = data.draw(st.integers(0, len(queries)))
    weights = np.array(weights)
    ids, splits, labels = arrays(queries)
    sums = MetricSums(weights)
    sums.add(ids[:cut], splits[: cut + 1], labels[: splits[cut]])
    sums.add(ids[cut:], splits[cut:], labels[splits[cut] :])  # its splits do not start at 0
    assert sums.result() == pytest.approx(evaluate(ids, splits, labels, weights))


@given(queries)
def test_a_perfect_ranking_scores_full_marks(queries):
    queries = [(sorted(truth), truth) for _, truth in queries if 0 < len(truth) <= WIDTH]
    if queries:
        result = evaluate(*arrays(queries), np.ones(NUM_LABELS))
        perfect = [result[name] for name in result if not name.startswith("P@")]
        assert perfect == pytest.approx([100] * len(perfect))


def test_p_divides_by_k_and_rp_by_the_true_labels_within_reach():
    found = np.array([[True, True, False, False, False]])
    assert precision_at(found, 5) == [2 / 5]
    assert r_precision_at(found, np.array([2]), 5) == [1]
    assert r_precision_at(found, np.array([9]), 5) == [2 / 5]


def test_a_query_without_labels_counts_as_zero():
    result = evaluate(np.array([[0], [0]]), np.array([0, 1, 1]), np.array([0]), ks=(1,))
    assert result == {"P@1": 50, "RP@1": 50, "nDCG@1": 50, "R@100": 50}


def test_nothing_known_and_nothing_asked():
    nothing = np.array([], dtype=np.int32)
    assert set(evaluate(np.empty((0, 5), np.int32), np.array([0]), nothing).values()) == {0}
    assert not hits(np.array([[0, -1]]), np.array([0, 0]), nothing).any()


def test_padding_of_a_row_does_not_hit_the_row_before():
    largest = np.iinfo(np.int32).max
    ids = np.array([[largest], [-1]], dtype=np.int32)
    truth = np.array([largest, largest], dtype=np.int32)
    assert hits(ids, np.array([0, 1, 2]), truth).tolist() == [[True], [False]]


def test_names_and_their_order():
    result = evaluate(*arrays([([1], {1})]), np.ones(NUM_LABELS), ks=(1, 3))
    names = ["P@1", "P@3", "RP@1", "RP@3", "nDCG@1", "nDCG@3", "PSP@1", "PSP@3", "R@100"]
    assert list(result) == names
    assert all(type(value) is float for value in result.values())


def test_inverse_propensity_by_hand():
    """1 + C (n + b)^-a with C = (ln R - 1)(b + 1)^a; a label seen once gets ln R."""
    result = inverse_propensity([1, 10], 1000, a=0.6, b=2.6)
    scale = (math.log(1000) - 1) * 3.6**0.6
    assert result == pytest.approx([math.log(1000), 1 + scale / 12.6**0.6])


def test_rare_labels_weigh_more():
    assert (np.diff(inverse_propensity(np.arange(50), 1000)) < 0).all()


@given(queries, st.data())
def test_filtered_pairs_vanish_and_the_rest_moves_up(queries, data):
    filtered = [data.draw(st.lists(label)) for _ in queries]  # in any order
    ids, _, _ = arrays(queries)
    scores = np.tile(np.arange(WIDTH, 0, -1, dtype=np.float32), (len(ids), 1))
    splits = np.cumsum([0, *map(len, filtered)])
    flat = np.array([item for row in filtered for item in row], dtype=np.int32)
    new_ids, new_scores = filter_pairs(ids, scores, splits, flat)
    assert (new_ids.dtype, new_scores.dtype) == (np.int32, np.float32)
    for row, (predicted, _) in enumerate(queries):
        kept = [rank for rank, item in enumerate(predicted) if item not in filtered[row]]
        expected = [predicted[rank] for rank in kept]
        assert new_ids[row].tolist() == expected + [-1] * (WIDTH - len(kept))
        assert new_scores[row, : len(kept)].tolist() == [WIDTH - rank for rank in kept]
        assert np.isneginf(new_scores[row]).sum() == len(predicted) - len(kept)


@given(st.lists(st.tuples(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9))), min_size=1))
def test_filtered_labels_leave_the_truth(rows):
    def ragged(sets):
        splits = row_splits([len(x) for x in sets])
        return splits, np.array([i for x in sets for i in sorted(x)], np.int32)

    true, filtered = zip(*rows, strict=True)
    splits, labels = without_pairs(*ragged(true), *ragged(filtered))
    kept = [x - y for x, y in rows]
    assert splits.tolist() == ragged(kept)[0].tolist()
    assert labels.tolist() == ragged(kept)[1].tolist()


def test_true_labels_are_those_of_the_test_file(preprocessed, titles):
    splits, labels = true_labels(preprocessed)
    rows = [line.split("\t")[0].split(",") for line in (titles / "test.txt").open()]
    assert np.diff(splits).tolist() == [len(row) for row in rows]
    assert labels.tolist() == [int(label) for row in rows for label in row]
    assert filtered_labels(preprocessed)[0].tolist() == [0] * (len(rows) + 1)


def test_labels_in_the_filter_of_a_run_are_not_true(tmp_path, titles):
    for name in ("train", "test", "labels"):
        (tmp_path / f"{name}.txt").write_bytes((titles / f"{name}.txt").read_bytes())
    first = (titles / "test.txt").read_text().split("\t")[0].split(",")
    (tmp_path / "filter_labels_test.txt").write_text(f"0 {first[0]}\n")
    run = preprocess(tmp_path / "run", open_titles(tmp_path), small_config(), 1)
    splits, labels = true_labels(run)
    assert labels[: splits[1]].tolist() == [int(first[1])]
    assert filtered_labels(run)[1].tolist() == [int(first[0])]
