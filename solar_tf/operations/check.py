"""Verify a whole run: every file that has a checksum, also those that were verified before."""

from solar_tf.errors import UserError
from solar_tf.retrieval.label_table import read_attributes
from solar_tf.run.changes import COMMAND, read_delta
from solar_tf.run.checksums import VERIFIED, are_facts, verify
from solar_tf.run.directory import in_a_folder, read_run
from solar_tf.run.files import TEMPORARY, read_json, verify_arrays
from solar_tf.run.index import load_index
from solar_tf.run.records import verify_records
from solar_tf.run.weights import load_weights, read_state, verify_weights, weight_shapes
from solar_tf.runtime.console import progress

STAGES = ("preprocess.py", "train.py", "infer.py", "solar baseline", COMMAND)


class Report:
    """The files that were checked, and what is wrong with them."""

    def __init__(self, root):
        self.root, self.problems, self.seen = root, [], {}

    def look(self, stage, paths, test, *arguments):
        """Check files by a call that raises a UserError; returns its result or None."""
        self.seen |= dict.fromkeys(paths, stage)
        try:
            return test(*arguments)
        except UserError as error:
            return self.problems.append(str(error))

    def others(self):
        """Files without a checksum of their own, and leftovers of killed processes."""
        files = [path for path in _files(self.root, "**/*") if path.suffix != ".lock"]
        leftovers = [path for path in files if any(p.endswith(TEMPORARY) for p in path.parts)]
        return [path for path in files if path not in {*self.seen, *leftovers}], leftovers


def check(root):
    """Verify the run at `root`; returns the Report."""
    paths = in_a_folder(root)
    report = Report(paths.root)
    run = report.look(STAGES[0], [paths.config, paths.summary], read_run, paths)
    if run is None:
        if not paths.config.exists():
            raise UserError(*report.problems)
        return report
    jobs = [*_preprocessed(run), *_trained(run), *_inferred(run), *_changed(run)]
    with progress(len(jobs), "checking", "file") as bar:
        for job in jobs:
            report.look(*job)
            bar.update()
    return report


def _files(folder, pattern="*"):
    paths = sorted(folder.glob(pattern))
    return [path for path in paths if path.is_file() and path.name != VERIFIED]


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
        for path in _files(folder, f"{pattern}.json"):
            if path != run.paths.config:
                yield stage, [path], read_json, path, f"delete it and run {stage} again"


def _changed(run):
    """Changes of the catalogue: attributes, segments and tuned weights."""
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
