"""The results that a run holds: SOLAR's rows and the baselines', in one shape."""

import os
from dataclasses import dataclass

from solar_tf.run.directory import read_array, read_arrays, read_json


@dataclass(frozen=True)
class Result:
    """One row of results: a model with a setting, its metrics and times."""

    name: str  # as tables show it
    method: str  # solar, or the folder of a baseline
    setting: str  # full, m=100; of a baseline its title
    score: str
    metrics: dict  # percentages, and candidates
    training_seconds: float  # of the clock; see `training_clock`
    ms_query: float  # on all cores, a batch at a time
    num_chunks: int | None = None
    epochs: int | None = None

    @property
    def is_solar(self):
        return self.method == "solar"


def solar_results(run, num_chunks=None):
    """The rows of metrics.json, or of a subset of the chunks; [] where there is none."""
    content = read_json(run.paths.metrics(num_chunks))
    if content is None:
        return []
    cores = content.get("cores", os.cpu_count())
    clock = training_clock(run) if num_chunks is None else None
    return [
        Result(
            f"SOLAR ({row['setting']})" + (", evidence" if row["score"] == "evidence" else ""),
            "solar",
            row["setting"],
            row["score"],
            row,
            clock or content["training_seconds"],
            # The forward pass has all cores; selection and ranking were timed on one of them.
            row["ms_forward"] + (row["ms_top_m"] + row["ms_rank"]) / cores,
            content["num_chunks"],
            run.config.epochs,
        )
        for row in content["rows"]
    ]


def training_clock(run):
    """Seconds from start to end of a training that nothing broke, or None.

    Without it there are only the seconds of every chunk, and chunks train side by side.
    """
    return (read_json(run.paths.provenance) or {}).get("training_clock")


def baseline_results(run):
    """The rows of all baselines that are evaluated, by the name of their folder."""
    found = []
    for path in sorted(run.paths.baseline("*").parent.glob("*/metrics.json")):
        content = read_json(path)
        name = path.parent.name
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


def chunk_subsets(run):
    """The numbers of chunks, below all of them, that infer.py was run with."""
    counts = range(1, run.config.num_chunks)
    return [count for count in counts if run.paths.metrics(count).exists()]


def predictions(run, result):
    """ids [Q, k] and scores [Q, k] of a result of all chunks."""
    if result.is_solar:
        names = [f"{result.setting}_{result.score}_{what}" for what in ("ids", "scores")]
        return tuple(read_array(run.paths.predictions(), name) for name in names)
    path = run.paths.baseline(result.method) / "predictions.npz"
    arrays = read_arrays(path, "solar baseline")
    return arrays["ids"], arrays["scores"]


def best_shortlist(results, score="probability"):
    """SOLAR's result of the largest m with that score: what the paper compares with others."""
    rows = [r for r in results if r.is_solar and r.score == score and r.setting != "full"]
    return max(rows, key=lambda r: int(r.setting[2:]), default=None)
