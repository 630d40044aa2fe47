import dataclasses

import pytest
from conftest import files_of

from solar_tf.baselines import baseline_class
from solar_tf.errors import UserError
from solar_tf.reproduce import plan
from solar_tf.reproduce.execution import (
    baseline_settings,
    commits,
    execute,
    main_run,
    typed_settings,
)
from solar_tf.run.files import read_json, write_json
from solar_tf.runtime.provenance import commit


def test_all_runs_are_there(reproduced):
    folder, wish, config, _, failed = reproduced
    for planned in plan.plan(wish, config):
        for evaluation in planned.evaluations:
            path = folder.run(planned.name) / "metrics.json"
            if evaluation.num_chunks:
                path = path.with_name(f"metrics_{evaluation.num_chunks}_chunks.json")
            assert path.exists()
    assert not failed


def test_done_again_nothing_is_done(reproduced):
    folder, wish, config, dataset, _ = reproduced
    before = files_of(folder.root)
    execute(plan.plan(wish, config), folder, dataset, wish, trainers=1, workers=1)
    assert files_of(folder.root) == before


def test_what_is_missing_is_made_and_nothing_else(reproduced):
    folder, wish, config, dataset, _ = reproduced
    path = folder.run("ablation_B30") / "metrics_2_chunks.json"
    kept = (folder.run(plan.MAIN) / "metrics.json").stat().st_mtime_ns
    before = read_json(path)
    path.unlink()
    execute(plan.plan(wish, config), folder, dataset, wish, trainers=1, workers=1)
    after = read_json(path)
    assert [row["P@1"] for row in after["rows"]] == [row["P@1"] for row in before["rows"]]
    assert (folder.run(plan.MAIN) / "metrics.json").stat().st_mtime_ns == kept


def test_parts_know_their_commit_and_the_clock(reproduced):
    run = main_run(reproduced[0])
    assert commits(run, "SOLAR") == commits(run, "parabel") == (commit() or "installed")
    assert commits(run, "slice") == "unknown"
    assert read_json(run.paths.provenance)["training_clock"] > 0


def test_a_second_commit_is_added(reproduced):
    run = main_run(reproduced[0])
    content = read_json(run.paths.provenance)
    try:
        visits = [{**content["parts"]["parabel"][0], "commit": "older"}]
        visits += content["parts"]["parabel"]
        write_json(run.paths.provenance, content | {"parts": {"parabel": visits}})
        assert commits(run, "parabel") == f"older, {commit() or 'installed'}"
    finally:
        write_json(run.paths.provenance, content)


def test_one_missing_baseline_does_not_stop_the_others(reproduced):
    folder, wish, config, dataset, _ = reproduced
    (planned, *_) = plan.plan(wish, config)
    planned = dataclasses.replace(planned, baselines=("nobody", "sleec", "parabel"))
    wish = dataclasses.replace(wish, settings={"sleec": {"learners": "-1"}})
    failed = execute([planned], folder, dataset, wish, trainers=1, workers=1)
    assert failed == {
        (plan.MAIN, "nobody"): "not part of this version",
        (plan.MAIN, "sleec"): "learners must be at least 0, not -1",
    }


def test_another_config_in_the_same_folder_is_refused(reproduced):
    folder, wish, config, dataset, _ = reproduced
    runs = plan.plan(wish, dataclasses.replace(config, epochs=4))
    with pytest.raises(UserError, match=r"epochs=3, not 4: choose another --out"):
        execute(runs, folder, dataset, wish, trainers=1, workers=1)


def test_settings_get_their_types():
    kind = baseline_class("sleec").Settings
    assert typed_settings(kind, {"learners": "3", "ridge": "0.5"}) == kind(learners=3, ridge=0.5)
    with pytest.raises(UserError, match="no setting 'trees'"):
        typed_settings(kind, {"trees": "3"})
    with pytest.raises(UserError, match="learners is of type int, not 'many'"):
        typed_settings(kind, {"learners": "many"})


def test_baselines_take_their_preset_of_the_datasets_and_then_what_is_set():
    kind = baseline_class("dssm")
    assert baseline_settings(kind, "books", {}) == kind.Settings()  # the paper's
    small = kind.Settings(**kind.presets["debian"])
    assert baseline_settings(kind, "debian", {}) == small
    assert baseline_settings(kind, "debian", {"dim": "8"}) == dataclasses.replace(small, dim=8)
