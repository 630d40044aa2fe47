"""The results that a run holds: SOLAR's rows and the baselines', in one shape."""

import itertools
import os
from dataclasses import dataclass

from solar_tf.run.files import read_array, read_arrays, read_json


@dataclass(frozen=True)
class Result:
    """One row of results: a model with a setting, its metrics and times."""

    name: str  # as tables show it
    method: str  # solar, or the folder of a baseline
    setting: str  # full, m=100; of a baseline its title
    score: str
    metrics: dict  # percentages, and candidates
    training_seconds: float  # by the clock where it was kept: see `solar_results`
    ms_query: float  # on all cores, a batch at a time
    num_chunks: int | None = None
    epochs: int | None = None
    subset: int | None = None  # the first chunks only; None for all

    @property
    def is_solar(self):
        return self.method == "solar"


def all_results(run):
    """SOLAR with all chunks, SOLAR with fewer chunks where infer.py was run so, baselines."""
    counts = range(1, run.config.num_chunks)
    subsets = [solar_results(run, count) for count in counts]
    return [*solar_results(run), *itertools.chain(*subsets), *baseline_results(run)]


def solar_results(run, subset=None):
    """The rows of metrics.json, of all chunks or of the first ones; [] where there is none."""
    content = read_json(run.paths.metrics(subset))
    if content is None:
        return []
    cores = content.get("cores", os.cpu_count())
    # The clock ran from start to end of a training that nothing broke. Without it there are only
    # the seconds of every chunk, and chunks train side by side.
    clock = None if subset else (read_json(run.paths.provenance) or {}).get("training_clock")
    return [
        Result(
            f"SOLAR ({row['setting']})"
            + (", evidence" if row["score"] == "evidence" else "")
            + (f", {subset} chunks" if subset else ""),
            "solar",
            row["setting"],
            row["score"],
            row,
            clock or content["training_seconds"],
            # The forward pass has all cores; selection and ranking were timed on one of them.
            row["ms_forward"] + (row["ms_top_m"] + row["ms_rank"]) / cores,
            content["num_chunks"],
            run.config.epochs,
            subset,
        )
        for row in content["rows"]
    ]


def baseline_results(run):
    """The rows of all baselines that are evaluated, by the name of their folder."""
    found = []
    for path in sorted(run.paths.baseline("*").parent.glob("*/metrics.json")):
        content, name = read_json(path), path.parent.name
        for row in content["rows"]:
            title = row["setting"] if name == content["baseline"] else f"{row['setting']} ({name})"
            found.append(
                Result(
                    title,
                    name,
                    row["setting"],
                    row["score"],
                    row,
                    content["training_seconds"],
                    row["ms_query"],
                    epochs=content["settings"].get("epochs"),
                )
            )
    return found


def predictions(run, result):
    """ids [Q, k] and scores [Q, k] of a result."""
    if result.is_solar:
        path = run.paths.predictions(result.subset)
        names = [f"{result.setting}_{result.score}_{what}" for what in ("ids", "scores")]
        return tuple(read_array(path, name) for name in names)
    path = run.paths.baseline(result.method) / "predictions.npz"
    arrays = read_arrays(path, "solar baseline")
    return arrays["ids"], arrays["scores"]


def best_shortlist(results, score="probability"):
    """SOLAR's result of the largest m with that score: what the paper compares with others."""
    rows = [r for r in results if r.is_solar and r.score == score and r.setting != "full"]
    return max(rows, key=lambda r: int(r.setting[2:]), default=None)


def top_buckets(run, chunk):
    """Blocks of queries as infer.py left them: {"buckets": [n, m], "values": [n, m]}."""
    for block in itertools.count():
        path = run.paths.topm(block, chunk)
        if not path.exists():
            return
        yield read_arrays(path, "infer.py")
