"""Who may import whom: docs/architecture.md has the picture."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# A package imports itself and those above it.
LAYERS = (
    ("errors",),
    ("config",),
    ("runtime",),
    ("run",),
    ("datasets",),
    ("preprocessing",),
    ("training",),
    ("retrieval",),
    ("catalogue",),
    ("operations",),
    ("baselines",),
    ("analysis",),
    ("reproduce", "serving", "distributed", "export", "api"),
    ("cli",),
)
LAYER = {name: number for number, layer in enumerate(LAYERS) for name in layer}
# Stages talk through the run directory: the trainer knows nothing of the stage before it.
FORBIDDEN = {"training": {"preprocessing"}}
SOURCES = sorted((ROOT / "solar_tf").rglob("*.py"))
STAGES = ("preprocess", "train", "infer")
# Everything else is imported by worker processes, or by programs that must start in a moment.
TENSORFLOW = {
    "training": {"batches", "checkpoints", "initial", "model", "optimizer", "stage", "trainer"},
    "retrieval": {"evaluation", "forward"},
    "operations": {"estimate", "measuring"},
    "baselines": {"pair_training", "towers"},
    "reproduce": {"costs", "execution", "output", "compare", "samples"},
    "distributed": {"inference"},
}


def name_of(path):
    """`solar_tf/datasets/titles.py` as `datasets.titles`; a package as its own name."""
    parts = path.relative_to(ROOT / "solar_tf").with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports_of(path):
    """The modules of solar_tf that a file imports, at any depth of its code."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: import by the full name"
            for alias in node.names:
                inner = ROOT / node.module.replace(".", "/") / alias.name
                is_module = inner.is_dir() or inner.with_suffix(".py").exists()
                yield f"{node.module}.{alias.name}" if is_module else node.module


def own_imports_of(path):
    for name in imports_of(path):
        if name.startswith("solar_tf."):
            yield name.removeprefix("solar_tf.")


@pytest.mark.parametrize("package", LAYER)
def test_a_package_imports_only_those_above_it(package):
    for path in SOURCES:
        if name_of(path).split(".")[0] == package:
            imported = {name.split(".")[0] for name in own_imports_of(path)} - {package}
            above = {name for name in LAYER if LAYER[name] < LAYER[package]}
            assert imported <= above - FORBIDDEN.get(package, set()), path


def test_every_package_has_a_layer_and_few_modules_lie_outside():
    assert {name_of(path).split(".")[0] for path in SOURCES} == {"", "__main__", *LAYER}
    assert len(list((ROOT / "solar_tf").glob("*.py"))) <= 6


def test_modules_import_one_another_in_no_circle():
    graph = {name_of(path): {*own_imports_of(path)} - {name_of(path)} for path in SOURCES}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError


def test_what_workers_import_does_not_load_tensorflow():
    names = [name_of(path) for path in SOURCES]
    modules = [
        f"solar_tf.{name}"
        for name in names
        if name not in ("", "__main__")
        and name.rpartition(".")[2] not in TENSORFLOW.get(name.split(".")[0], ())
    ]
    assert len(modules) > 100
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    assert not {'tensorflow', 'keras'} & sys.modules.keys(), name\n"
    )
    subprocess.run([sys.executable, "-c", code, *modules], cwd=ROOT, check=True)


def test_the_package_loads_nothing_until_it_is_asked_for_its_api():
    code = (
        "import sys, solar_tf\n"
        "assert not [name for name in sys.modules if name.startswith('solar_tf.')]\n"
        "assert 'numpy' not in sys.modules\n"
        "assert solar_tf.Solar.__name__ == 'Solar'\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_no_module_is_a_drawer_for_everything():
    assert not {path.stem for path in SOURCES} & {"util", "utils", "helpers", "common", "misc"}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_program_is_flags_and_one_call(stage):
    path = ROOT / stage / f"{stage}.py"
    assert len(path.read_text().splitlines()) < 80
    at_import = [node for node in ast.parse(path.read_text()).body if "Import" in str(type(node))]
    assert [ast.unparse(node) for node in at_import if "solar_tf" in ast.unparse(node)] == [
        "from solar_tf.cli import stages",
        "from solar_tf.runtime import devices",
    ]


def test_nothing_importable_lies_where_a_stage_program_looks_first():
    """`sys.path[0]` is the program's folder; installed, all three share the folder of scripts."""
    for folder in (*STAGES, "data"):
        assert not list((ROOT / folder).rglob("__init__.py"))
    for stage in STAGES:
        assert [path.name for path in (ROOT / stage).glob("*.py")] == [f"{stage}.py"]
    assert not {path.name for path in (ROOT / "solar_tf").iterdir()} & {*STAGES, "data"}
