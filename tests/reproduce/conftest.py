"""Tables 1 to 5 on planted titles, in a minute: a tiny SOLAR, and Parabel."""

import dataclasses

import pytest
from conftest import open_titles, small_config

from solar_tf.reproduce import execution, output, plan

SIZES = {"num_chunks": 2, "num_buckets": 30, "hidden_dim": 16, "batch_size": 32, "epochs": 3}


@dataclasses.dataclass(frozen=True)
class Reproduction:
    """A folder of runs and what was asked for; other wishes can be tried out on it."""

    folder: plan.Folder
    wish: plan.Wish
    config: object
    dataset: object

    @property
    def main(self):
        return execution.main_run(self.folder)

    def runs(self):
        return plan.plan(self.wish, self.config)

    def execute(self, runs=None):
        what = runs or self.runs(), self.folder, self.dataset, self.wish
        return execution.execute(*what, trainers=1, workers=1)

    def wishing(self, **changes):
        return dataclasses.replace(self, wish=dataclasses.replace(self.wish, **changes))

    def collect(self, paper_dataset=None, **changes):
        wish = self.wishing(**changes).wish
        return output.collect(self.folder, wish, self.config, self.dataset, paper_dataset, {})


@pytest.fixture(scope="session")
def reproduced(titles, tmp_path_factory):
    """Not to be changed."""
    wish = plan.Wish(plan.TABLES, ("solar", "parabel", "unheard"), {}, ablation_chunks=4)
    folder = plan.Folder(tmp_path_factory.mktemp("reproduction"))
    made = Reproduction(folder, wish, small_config(**SIZES), open_titles(titles))
    assert not made.execute()
    return made
