import json
import re

import numpy as np
import pytest

from solar_tf.analysis.report.facts import accuracy_by_frequency
from solar_tf.analysis.report.run_page import write_report
from solar_tf.cli.solar import main
from solar_tf.retrieval.metrics import true_labels


def test_accuracy_by_frequency_counts_pairs(evaluated):
    splits, labels = true_labels(evaluated)
    perfect = np.full((len(splits) - 1, 3), -1, np.int32)
    for q in range(len(perfect)):
        perfect[q, : splits[q + 1] - splits[q]] = labels[splits[q] : splits[q + 1]]
    half = perfect.copy()
    half[:, 1] = -1
    found = accuracy_by_frequency(evaluated, {"perfect": perfect, "half": half})
    assert sum(found["pairs"]) == len(labels)
    assert set(found["shares"]["perfect"]) == {100.0}
    shares = np.array(found["shares"]["half"]) @ found["pairs"] / len(labels)
    assert shares == pytest.approx(50)


def test_facts_of_a_whole_run(facts):
    assert facts["rows"] == {"train": 600, "test": 120}
    assert sorted(facts["history"]) == [0, 1, 2]
    assert facts["made_with"]["matrix products"] == "float32"
    assert facts["curves"]
    for found in facts["scores"].values():
        assert sum(found["hits"]) == pytest.approx(100)
        assert sum(found["misses"]) == pytest.approx(100)
    assert set(facts["samples"].halves) == {"SOLAR (m=20)", "SOLAR (m=20), evidence", "Parabel"}
    for key in ("curves", "candidates", "scores", "frequency", "history"):
        json.dumps(facts[key], allow_nan=False)  # what is not a number would be shown as one


def test_the_page_is_one_file_without_any_outside_asset(evaluated, titles, tmp_path):
    path = tmp_path / "page.html"
    root, test = str(evaluated.paths.root), str(titles / "test.txt")
    main(["report", root, "--out", str(path), "--test", test])
    text = path.read_text()
    assert not re.search(r"https?://|<script|<link|<img|url\((?!#)", text)
    for name in ("Results", "Precision", "Training", "Retrieval", "Labels", "Geometry", "Set-up"):
        assert f"<h2>{name}</h2>" in text
    assert text.count("<svg") >= 14
    assert "Parabel" in text
    first = (titles / "test.txt").read_text().split("\n")
    assert any(f"<q>{line.split(chr(9))[1]}</q>" in text for line in first if line)


def test_a_run_that_has_only_begun_has_a_page_too(preprocessed, tmp_path):
    path = write_report(preprocessed, tmp_path / "page.html")
    text = path.read_text()
    assert "0 of 3 chunks are trained" in text
    assert "<h2>Results</h2>" not in text
    assert "<h2>Geometry</h2>" in text


def test_a_wrong_test_file_is_refused(evaluated, tmp_path, capsys):
    path = tmp_path / "test.txt"
    path.write_text("0\tone\n")
    with pytest.raises(SystemExit):
        main(["report", str(evaluated.paths.root), "--test", str(path)])
    assert "other rows than the run's test file" in capsys.readouterr().err
