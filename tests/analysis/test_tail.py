import itertools
import json
from collections import Counter

import numpy as np
import pytest

from solar_tf.analysis import tail
from solar_tf.cli.solar import main
from solar_tf.datasets.vocabulary import tokenize
from solar_tf.errors import UserError
from solar_tf.retrieval.metrics import KS, evaluate
from solar_tf.run.files import write_arrays, write_json
from solar_tf.runtime.ragged import row_splits


def test_unseen_labels_are_a_group_and_equal_counts_share_one():
    counts = np.array([0, 5, 1, 1, 1, 0, 900, 2, 1, 7, 1, 30])
    groups = tail.label_groups(counts)
    assert groups[counts == 0].tolist() == [0, 0]
    assert groups[counts == 1].tolist() == [1] * 5
    order = np.argsort(counts, kind="stable")
    assert np.all(np.diff(groups[order]) >= 0) and groups.max() == 10
    many = tail.label_groups(np.arange(1, 1001))
    assert np.bincount(many).tolist() == [0] + [100] * 10


def test_halves_are_of_the_sum_of_the_words_frequencies(preprocessed, titles):
    def words_of(split):
        lines = (titles / f"{split}.txt").read_text().splitlines()
        return [{*tokenize(line.split("\t")[1])} for line in lines]

    counts = Counter(itertools.chain(*words_of("train")))
    sums = [sum(counts[word] for word in words) for words in words_of("test")]
    halves = tail.query_halves(preprocessed)
    assert [*map(len, halves.values())] == [60, 60]
    assert {*halves["frequent"]} | {*halves["infrequent"]} == {*range(120)}
    assert min(sums[row] for row in halves["frequent"]) >= max(
        sums[row] for row in halves["infrequent"]
    )


def random_rankings(seed=0, queries=30, num_labels=50):
    generator = np.random.default_rng(seed)
    ids = np.stack([generator.permutation(num_labels)[:20] for _ in range(queries)])
    ids[3, 5:] = -1
    counts = generator.integers(0, 6, queries)
    true = [np.sort(generator.choice(num_labels, count, replace=False)) for count in counts]
    return ids.astype(np.int32), row_splits(counts), np.concatenate(true)


def test_groups_of_labels_against_a_count_by_hand():
    ids, splits, labels = random_rankings()
    groups = np.arange(50) % 4
    found = tail.by_labels(ids, splits, labels, groups)
    for group, row in enumerate(found):
        hits = total = first = 0
        for q in range(len(ids)):
            own = {label for label in labels[splits[q] : splits[q + 1]] if label % 4 == group}
            hits += len(own & set(ids[q]))
            first += len(own & set(ids[q, :5]))
            total += len(own)
        assert row["R@100"] == pytest.approx(100 * hits / total)
        assert row["P@5"] == pytest.approx(100 * first / (5 * len(ids)))
    whole = evaluate(ids, splits, labels)
    for k in KS:
        assert sum(row[f"P@{k}"] for row in found) == pytest.approx(whole[f"P@{k}"])


def test_halves_of_queries_add_up_to_all():
    ids, splits, labels = random_rankings()
    halves = {"one": np.arange(0, len(ids), 2), "other": np.arange(1, len(ids), 2)}
    found = tail.by_half(ids, splits, labels, halves)
    whole = evaluate(ids, splits, labels)
    for name in ("P@1", "P@5", "R@100"):
        mean = (found["one"][name] + found["other"][name]) / 2
        assert mean == pytest.approx(whole[name])
    assert found["one"] != found["other"]


def test_a_run_is_measured_with_all_that_predicted_it(trained, capsys, tmp_path):
    from solar_tf.baselines.inputs import load_data

    root = trained.paths.root
    data = load_data(root)
    perfect = data.test.labels.indices.reshape(-1, 2).astype(np.int32)
    folder = trained.paths.baseline("oracle")
    write_arrays(folder / "predictions.npz", {"ids": perfect, "scores": np.ones(perfect.shape)})
    row = {"setting": "Oracle", "score": "", "ms_query": 0.0}
    facts = {"baseline": "oracle", "training_seconds": 0.0, "settings": {}, "rows": [row]}
    write_json(folder / "metrics.json", facts)
    main(["tail", str(root), "--json"])
    facts = json.loads(capsys.readouterr().out)
    oracle = facts["models"]["Oracle"]
    assert all(row["R@100"] == 100 for row in oracle["labels"])
    assert [half["P@1"] for half in oracle["queries"].values()] == [100, 100]
    assert sum(group["true"] for group in facts["groups"]) == data.test.labels.nnz
    assert sum(group["labels"] for group in facts["groups"]) == data.num_labels
    main(["tail", str(root)])
    shown = capsys.readouterr().out
    assert "infrequent: P@1" in shown and "Oracle" in shown and "100.00" in shown


def test_a_run_without_predictions_is_an_error(preprocessed, capsys):
    root = preprocessed.paths.root
    with pytest.raises(UserError, match="nothing has been predicted"):
        tail.measure(root)
    with pytest.raises(SystemExit):
        main(["tail", str(root)])
    assert ": run infer.py, or a baseline" in capsys.readouterr().err
