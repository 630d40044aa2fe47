"""A toy run after all three stages, with a baseline beside it, evaluated on planted titles."""

import pytest


@pytest.fixture(scope="session")
def evaluated(trained):
    """Not to be changed; m=5 and m=20 of 24 buckets, and SOLAR-full."""
    from solar_tf.baselines.runner import run_baseline
    from solar_tf.inference import infer
    from solar_tf.rundir import open_run

    infer(trained.paths.root, top_buckets=(20, 5))
    infer(trained.paths.root, top_buckets=(20, 5), num_chunks=2)
    run_baseline(trained.paths.root, "parabel")
    return open_run(trained.paths.root)
