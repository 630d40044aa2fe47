"""Verify a whole run: every file that carries a checksum, whatever was verified before."""

from solar_tf.errors import UserError
from solar_tf.retrieval.label_table import read_attributes
from solar_tf.run.changes import COMMAND, read_delta
from solar_tf.run.checksums import MEMORY, are_facts, verify
from solar_tf.run.directory import TEMPORARY, Run, in_a_folder, read_config, read_json, read_summary
from solar_tf.run.files import verify_arrays
from solar_tf.run.index import load_index
from solar_tf.run.records import verify_records
from solar_tf.run.weights import load_weights, read_state, verify_weights, weight_shapes
from solar_tf.runtime.console import progress

STAGES = ("preprocess.py", "train.py", "infer.py", "solar baseline", COMMAND)


class Report:
    """What was looked at, and what is wrong with it."""

    def __init__(self, root):
        self.root, self.problems, self.seen = root, [], {}

    def look(self, stage, paths, test, *arguments):
        """Verify files that belong together by one call, which raises a UserError."""
        self.seen |= dict.fromkeys(paths, stage)
        try:
            test(*arguments)
        except UserError as error:
            self.problems.append(str(error))

    def others(self):
        """Files without a checksum of their own, and leftovers of killed processes."""
        files = [
            path
            for path in self.root.rglob("*")
            if path.is_file() and path.suffix != ".lock" and path.name != MEMORY
        ]
        leftovers = [
            path for path in files if TEMPORARY in {p.suffix for p in (path, *path.parents)}
        ]
        return [path for path in files if path not in {*self.seen, *leftovers}], leftovers


def check(root):
    """Verify the run at `root`; returns the Report."""
    paths = in_a_folder(root)
    content = read_config(paths)
    if content is None:
        raise UserError(f"{root}: no run here (no config.json): run preprocess.py --run {root}")
    report = Report(paths.root)
    report.seen[paths.config] = STAGES[0]
    report.look(STAGES[0], [paths.summary], _complete, paths, content["format"])
    if report.problems:
        return report
    summary = read_summary(paths, content["format"])
    files = content.get("files", {}) | summary.pop("files")
    seeds = tuple(content["seeds"])
    run = Run(paths, content["config"], content["dataset"], seeds, summary, files)
    jobs = [*_preprocessed(run), *_trained(run), *_inferred(run), *_changed(run)]
    with progress(len(jobs), "checking", "file") as bar:
        for job in jobs:
            report.look(*job)
            bar.update()
    return report


def _complete(paths, number):
    if read_summary(paths, number) is None:
        raise UserError(f"{paths.root}: preprocessing is not complete: run preprocess.py again")


def _preprocessed(run):
    paths, remedy = run.paths, "delete it and run preprocess.py again"
    for name, facts in run.files.items():
        test = verify, paths.root, {name: facts}, remedy, False
        yield STAGES[0], [paths.root / name], *test
    if run.files:
        return
    # Format 1 has no manifest, but most of its files have checksums inside.
    sizes = run.config.num_buckets, run.dataset["num_labels"]
    for chunk in range(run.config.num_chunks):
        yield STAGES[0], [paths.index(chunk)], load_index, paths.index(chunk), *sizes
    for split, counts in run.summary.items():
        for shard in range(counts["shards"]):
            rows = paths.rows(split, shard)
            yield STAGES[0], [rows], verify_arrays, rows, STAGES[0]
        for chunk in range(run.config.num_chunks):
            sources = run.sources(split, chunk)
            for path in (*sources["paths"], *(sources.get("dense_paths", ()) if not chunk else ())):
                yield STAGES[0], [path], verify_records, path


def _trained(run):
    shapes = weight_shapes(run.config, run.input_dim)
    for chunk in range(run.config.num_chunks):
        folder = run.paths.chunk(chunk)
        if folder.exists():
            yield STAGES[1], _files(folder), _chunk, folder, shapes
        for checkpoint in run.paths.training(chunk).glob("step_*[0-9]"):
            yield STAGES[1], _files(checkpoint), _checkpoint, checkpoint


def _files(folder):
    return [path for path in folder.iterdir() if path.name != MEMORY]


def _chunk(folder, shapes):
    load_weights(folder, shapes, mapped=True, remember=False)
    files, remedy = read_state(folder).get("files", {}), f"delete {folder} and run train.py again"
    if not are_facts(files):
        raise UserError(f"{folder / 'state.json'}: no list of files in it: {remedy}")
    verify(folder, files, remedy, remember=False)


def _checkpoint(folder):
    verify_weights(folder, read_state(folder).get("sha256", ()), remember=False)


def _inferred(run):
    root, baselines = run.paths.root, run.paths.baseline("any").parent
    for stage, folder, pattern in (
        (STAGES[2], root, "*"),
        (STAGES[2], run.paths.topm_folder, "*"),
        (STAGES[3], baselines, "**/*"),
    ):
        for path in sorted(folder.glob(f"{pattern}.npz")):
            yield stage, [path], verify_arrays, path, stage
        for path in sorted(folder.glob(f"{pattern}.json")):
            if path != run.paths.config and path.name != MEMORY:
                yield stage, [path], read_json, path, f"delete it and run {stage} again"


def _changed(run):
    """The catalogue since training: segments, and tuned weights."""
    paths, shapes = run.paths, weight_shapes(run.config, run.input_dim)
    if paths.attributes.exists():
        yield STAGES[4], [paths.attributes], _attributes, run
    if not paths.catalogue_manifest.exists():
        return
    segments = sorted(paths.catalogue.glob("segment_*.npz"))
    yield STAGES[4], [paths.catalogue_manifest, *segments], read_delta, run, False
    for folder in sorted(paths.tuned_folder.glob("tuning_*/chunk_*")):
        yield STAGES[4], _files(folder), _chunk, folder, shapes


def _attributes(run):
    read_attributes(run, read_delta(run, remember=False))
