"""Tables 1 to 5 on planted titles, in a minute: a tiny SOLAR, and Parabel."""

import pytest
from conftest import open_titles, small_config

SIZES = {"num_chunks": 2, "num_buckets": 30, "hidden_dim": 16, "batch_size": 32, "epochs": 3}


@pytest.fixture(scope="session")
def reproduced(titles, tmp_path_factory):
    """folder, wish, config, dataset and why parts are missing; not to be changed."""
    from solar_tf.reproduce import plan
    from solar_tf.reproduce.execution import execute

    folder = plan.Folder(tmp_path_factory.mktemp("reproduction"))
    wish = plan.Wish(plan.TABLES, ("solar", "parabel", "unheard"), {}, ablation_chunks=4)
    dataset, config = open_titles(titles), small_config(**SIZES)
    runs = plan.plan(wish, config)
    failed = execute(runs, folder, dataset, wish, trainers=1, workers=1)
    return folder, wish, config, dataset, failed
