"""Which runs the paper's tables need on a dataset, and where a reproduction keeps them.

Tables 1, 2, 3 and 5 share one run, `main`; Table 4 has a run of its own for every B, whose first
chunks are its smaller K.
"""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

from solar_tf.errors import UserError
from solar_tf.reproduce import paper

TABLES = (1, 2, 3, 4, 5)
MAIN = "main"
TOP_BUCKETS = (100, 50, 25)  # of the paper's tables
# Rows of the tables: SOLAR's settings, then baselines by the name of their module.
SOLAR_ROWS = {
    1: ("full", "m=100", "m=50"),
    2: ("full", "m=100", "m=50"),
    3: ("m=100", "m=50"),
    5: ("m=100",),
}
BASELINE_ROWS = {
    1: {"dssm": "DSSM", "glas": "GLaS", "snrm": "SNRM", "annexml": "AnnexML"},
    2: {"annexml": "AnnexML", "sleec": "SLEEC", "parabel": "Parabel",
        "pfastrexml": "PfastreXML", "slice": "SLICE"},
    3: {"slice": "SLICE", "parabel": "Parabel", "pfastrexml": "PfastreXML"},
    5: {"glas": "GLaS"},
}  # fmt: skip
MODELS = ("solar", *dict.fromkeys(name for rows in BASELINE_ROWS.values() for name in rows))
ABLATION_CHUNKS = 32  # the largest K of Table 4; the others are its half and its quarter
ABLATION_SHARES = (1.5, 1.0, 0.5)  # of the preset's B: 30K, 20K and 10K, where it is 20K


@dataclass(frozen=True)
class Evaluation:
    """A call of infer.py."""

    num_chunks: int | None = None  # None: all
    top_buckets: tuple = TOP_BUCKETS
    full: bool = True


@dataclass(frozen=True)
class PlannedRun:
    name: str
    config: object  # SolarConfig
    tables: tuple
    evaluations: tuple
    baselines: tuple = ()
    solar: bool = True


@dataclass(frozen=True)
class Wish:
    """What a user asks for."""

    tables: tuple
    models: tuple = MODELS
    settings: dict = field(default_factory=dict)  # of baselines: {name: {setting: value}}
    ablation_chunks: int = ABLATION_CHUNKS
    preset: str | None = None  # of the dataset; baselines with a preset of this name use it
    earlier: dict = field(default_factory=dict)  # {table: content}, for rows that are not run


class Folder:
    """Every path of a reproduction."""

    def __init__(self, root):
        self.root = Path(root)

    def run(self, name):
        return self.root / name

    @property
    def tables(self):
        return self.root / "tables"

    def table(self, number, form):
        return table_file(self.tables, number, form)

    @property
    def report(self):
        return self.root / "report.html"


def table_file(tables, number, form):
    """A table's file in a folder of tables."""
    return Path(tables) / f"table_{number}.{form}"


def plan(wish, config):
    """The PlannedRuns of a wish, `config` being the dataset's own."""
    runs = []
    shared = tuple(table for table in wish.tables if table in SOLAR_ROWS)
    if shared:
        wanted = dict.fromkeys(name for table in shared for name in BASELINE_ROWS[table])
        baselines = tuple(name for name in wanted if name in wish.models)
        solar = "solar" in wish.models
        runs.append(PlannedRun(MAIN, config, shared, (Evaluation(),), baselines, solar))
    if 4 in wish.tables and "solar" in wish.models:
        runs += ablation(config, wish.ablation_chunks)
    return runs


def ablation(config, num_chunks):
    """Table 4: a run for every B; all chunks first, whose top buckets the smaller K share."""
    for share in ABLATION_SHARES:
        num_buckets = max(1, round(share * config.num_buckets))
        changed = dataclasses.replace(config, num_chunks=num_chunks, num_buckets=num_buckets)
        evaluations = tuple(
            Evaluation(None if k == num_chunks else k, (paper.ABLATION_M,), full=False)
            for k in reversed(ablation_counts(num_chunks))
        )
        yield PlannedRun(f"ablation_B{num_buckets}", changed, (4,), evaluations)


def ablation_counts(num_chunks):
    """The K of Table 4: a quarter, a half and all of the chunks, without repeats."""
    return sorted({max(1, num_chunks // 4), max(1, num_chunks // 2), num_chunks})


def parse_tables(words):
    """The tables of `1`, `1,4` or `all`."""
    if "all" in words:
        return TABLES
    chosen = {word.strip() for word in words}
    if not chosen or not chosen <= {str(table) for table in TABLES}:
        raise UserError(f"--table {','.join(words)}: choose of 1, 2, 3, 4, 5, or all")
    return tuple(table for table in TABLES if str(table) in chosen)


def parse_models(words):
    """The models of a list flag, in the order of the tables."""
    if odd := set(words) - set(MODELS):
        raise UserError(f"--models {','.join(sorted(odd))}: choose of {', '.join(MODELS)}")
    return tuple(model for model in MODELS if model in words)


def parse_settings(words):
    """{"sleec": {"learners": "3"}} of `sleec.learners=3`."""
    found = {}
    for word in words:
        name, _, rest = word.partition(".")
        setting, equals, value = rest.partition("=")
        if not (name in MODELS[1:] and setting and equals):
            raise UserError(f"--set {word}: write it as sleec.learners=3, of a baseline")
        found.setdefault(name, {})[setting] = value
    return found
