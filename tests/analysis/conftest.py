"""A toy run after all three stages, with a baseline beside it, evaluated on planted titles."""

import shutil

import pytest


@pytest.fixture(scope="session")
def evaluated(trained_once, tmp_path_factory):
    """Not to be changed; m=5 and m=20 of 24 buckets, and SOLAR-full."""
    from solar_tf.baselines.runner import run_baseline
    from solar_tf.retrieval.evaluation import infer
    from solar_tf.run.directory import open_run

    root = tmp_path_factory.mktemp("evaluated") / "run"
    shutil.copytree(trained_once.paths.root, root)
    infer(root, top_buckets=(20, 5))
    infer(root, top_buckets=(20, 5), num_chunks=2)
    run_baseline(root, "parabel")
    return open_run(root)


@pytest.fixture(scope="session")
def facts(evaluated):
    from solar_tf.analysis.report.facts import gather

    return gather(evaluated)
