import dataclasses

import pytest
from conftest import files_of

from solar_tf.baselines import baseline_class
from solar_tf.errors import UserError
from solar_tf.reproduce import plan
from solar_tf.reproduce.execution import baseline_settings, commits, typed_settings
from solar_tf.run.files import read_json, write_json
from solar_tf.runtime.provenance import commit


def test_all_runs_are_there_and_are_not_made_again(reproduced):
    for planned in reproduced.runs():
        for evaluation in planned.evaluations:
            few = evaluation.num_chunks
            name = f"metrics_{few}_chunks.json" if few else "metrics.json"
            assert (reproduced.folder.run(planned.name) / name).exists()
    before = files_of(reproduced.folder.root)
    reproduced.execute()
    assert files_of(reproduced.folder.root) == before


def test_what_is_missing_is_made_and_nothing_else(reproduced):
    path = reproduced.folder.run("ablation_B30") / "metrics_2_chunks.json"
    main = reproduced.folder.run(plan.MAIN) / "metrics.json"
    kept, before = main.stat().st_mtime_ns, read_json(path)
    path.unlink()
    reproduced.execute()
    after = read_json(path)
    assert [row["P@1"] for row in after["rows"]] == [row["P@1"] for row in before["rows"]]
    assert main.stat().st_mtime_ns == kept


def test_parts_know_their_commits_and_the_clock(reproduced):
    run, now = reproduced.main, commit() or "installed"
    content = read_json(run.paths.provenance)
    assert content["training_clock"] > 0
    assert commits(run, "SOLAR") == commits(run, "parabel") == now
    assert commits(run, "slice") == "unknown"
    try:
        visits = [{**content["parts"]["parabel"][0], "commit": "older"}]
        visits += content["parts"]["parabel"]
        write_json(run.paths.provenance, content | {"parts": {"parabel": visits}})
        assert commits(run, "parabel") == f"older, {now}"
    finally:
        write_json(run.paths.provenance, content)


def test_one_missing_baseline_does_not_stop_the_others(reproduced):
    planned = dataclasses.replace(reproduced.runs()[0], baselines=("nobody", "sleec", "parabel"))
    failed = reproduced.wishing(settings={"sleec": {"learners": "-1"}}).execute([planned])
    assert failed == {
        (plan.MAIN, "nobody"): "not part of this version",
        (plan.MAIN, "sleec"): "learners must be at least 0, not -1",
    }


def test_another_config_in_the_same_folder_is_refused(reproduced):
    config = dataclasses.replace(reproduced.config, epochs=4)
    with pytest.raises(UserError, match=r"epochs=3, not 4: choose another --out"):
        dataclasses.replace(reproduced, config=config).execute()


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
