"""A run in fewer bits, for searching: weights in float16, or in int8 with a scale per column.

Rows, records and checkpoints are left out. So the new run answers queries and its catalogue can
change, but it cannot be trained further or evaluated by infer.py.
"""

import shutil
from pathlib import Path

from solar_tf.errors import UserError
from solar_tf.run.changes import append, changing, read_delta
from solar_tf.run.checksums import file_facts
from solar_tf.run.directory import open_run
from solar_tf.run.files import atomic_folder, read_json, write_json
from solar_tf.run.paths import RunDirectory
from solar_tf.run.precision import quantize
from solar_tf.run.weights import NAMES, load_weights, read_state, save_weights, weight_shapes
from solar_tf.runtime.console import progress, say, size, table


def export(run, out, precision="int8"):
    """Write the run in fewer bits to the new folder `out`."""
    source, copy = open_run(run), RunDirectory(Path(out))
    chunks = source.choose_chunks()
    if copy.root.exists():
        raise UserError(f"{out}: is there already: choose another folder, or delete it")
    if not source.files:
        raise UserError(f"{run}: a run of an older version: make it again with preprocess.py")
    changes = read_delta(source)
    content = read_json(source.paths.config)
    files = [source.paths.root / name for name in content.get("files", {})]
    files += [source.paths.label_counts, *map(source.paths.index, chunks)]
    if source.paths.attributes.exists():
        files.append(source.paths.attributes)
    with progress(len(chunks), f"to {precision}", "chunk") as bar:
        for path in files:
            new = copy.root / source.paths.name_of(path)
            new.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, new)
        for chunk in chunks:
            _quantize(source, changes.weights(source, chunk), copy.chunk(chunk), precision)
            bar.update()
    # These two make it a run, so they come last.
    write_json(copy.config, content)
    manifest = (copy.label_counts, *map(copy.index, chunks))
    summary = {
        "train": source.summary["train"] | {"shards": 0},
        "test": source.summary["test"] | {"shards": 0, "rows": 0},
        "files": {copy.name_of(path): file_facts(path) for path in manifest},
    }
    write_json(copy.summary, summary)
    made = open_run(out)
    if changes.segments:
        titles = changes.titles.decode().split("\n")[:-1]
        with changing(made) as none:
            append(made, none, titles, changes.buckets, changes.removed, changes.attributes)
    _report(source, made, chunks)


def _quantize(run, folder, new, kind):
    weights = load_weights(folder, weight_shapes(run.config, run.input_dim), mapped=True)
    facts = read_state(folder)
    for name in ("sha256", "files"):
        facts.pop(name, None)
    stored = {}
    for name in NAMES:
        stored |= quantize(name, weights[name], kind)
    with atomic_folder(new) as temporary:
        save_weights(temporary, stored, facts | {"precision": kind})


def _report(source, made, chunks):
    def total(paths):
        return sum(p.stat().st_size for c in chunks for p in paths.chunk(c).glob("*.npy"))

    before, after = total(source.paths), total(made.paths)
    rows = [
        (str(source.paths.root), size(before)),
        (str(made.paths.root), f"{size(after)}, {before / after:.1f} times smaller"),
    ]
    say(table(("run", "weights"), rows))
    say(f"\nNext: infer.py --run {made.paths.root} --query TEXT")
