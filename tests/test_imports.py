"""Who may import whom: a module imports only those above it."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = [
    "errors",
    "programs",
    "config",
    "presets",
    "console",
    "provenance",
    "paper",
    "tables",
    "storage",
    "checksums",
    "urls",
    "store",
    "mirror",
    "claims",
    "paths",
    "manifest",
    "rundir",
    "precision",
    "weights",
    "checkpoints",
    "memory",
    "workers",
    "hashing",
    "features",
    "metrics",
    "truth",
    "datasets",  # a folder; inside it nothing goes round in a circle
    "conditions",
    "attributes",
    "index",
    "clusters",
    "delta",
    "geometry",
    "kernels",
    "shortlist",
    "retrieval",
    "sharding",
    "ranking",
    "labels",
    "encoder",
    "search",
    "records",
    "record_reader",
    "scanning",
    "limits",
    "shards",
    "groups",
    "preprocessing",
    "cli",
    "catalogue",
    "check",
    "transfer",
    "serving",  # a folder as well
    "main",
    "report",  # a folder as well
    "theory",  # and this
    "--- TensorFlow may be imported below this line only ---",
    "adam",
    "batches",
    "model",
    "starts",
    "forward",
    "measuring",
    "estimate",
    "training",
    "tuning",
    "inference",
    "baselines",  # a folder as well
    "tail",
    "reproduce",  # and this
    "distributed",  # and this
    "export",  # and this
    "api",
]
FOLDERS = (
    "datasets",
    "serving",
    "baselines",
    "report",
    "theory",
    "reproduce",
    "distributed",
    "export",
)
LINE = next(i for i, layer in enumerate(LAYERS) if layer.startswith("---"))
TENSORFLOW = {"tensorflow", "keras"}
UNTESTED = {  # why a module has no test file of its own
    "__init__": "the version number",
    "shards": "the files of stage 1: test_preprocessing",
    "errors": "one exception without a body",
    "shortlist": "held to brute force with the other kernels: test_kernels",
    "truth": "read by every evaluation: test_inference",
}
UNTESTED_DATASETS = {
    "__init__": "names only",
    "__main__": "one call: test_command",
    "byte_parser": "the fast path of number_text, held to it by test_sparse_text",
    "json_titles": "titles in other clothes: test_titles",
    "number_text": "what XML-Repo and dense files share: test_sparse_text",
    "planted": "the kernels of synthetic, by whose rows they are seen: test_synthetic",
    "source": "an interface",
}
UNTESTED_DISTRIBUTED = {
    "__init__": "names only",
    "inference": "on a real cluster: test_cluster",
}
UNTESTED_EXPORT = {
    "__init__": "names only",
    "__main__": "one call for each target: test_engines",
    "qdrant": "the engine itself: test_engines",
    "milvus": "the engine itself: test_engines",
}
UNTESTED_BASELINES = {
    "__init__": "names only",
    "__main__": "flags and one call: test_runner",
}
UNTESTED_SERVING = {
    "__init__": "names only",
    "schemas": "the document that schemathesis tests by: test_app",
    "service": "what the routes call: test_app, test_server",
}
UNTESTED_REPORT = {
    "__init__": "one sentence",
    "__main__": "flags and one call: test_facts",
    "figures": "the charts of test_sections",
}
UNTESTED_THEORY = {
    "__init__": "one sentence",
    "__main__": "flags and one call: test_findings",
}
UNTESTED_REPRODUCE = {
    "__init__": "one sentence",
    "__main__": "flags and some calls: test_output",
}
# Modules that import it: the networks of those that learn from titles.
TENSORFLOW_BASELINES = {
    f"baselines.{name}" for name in ("losses", "pair_training", "sparse_towers", "towers")
}
SOURCES = sorted((ROOT / "solar_tf").rglob("*.py"))
STAGES = ["preprocess", "train", "infer"]


def name_of(path):
    """`solar_tf/datasets/titles.py` as `datasets.titles`; a package as its own name."""
    parts = path.relative_to(ROOT / "solar_tf").with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def layer_of(module):
    return LAYERS.index(module.split(".")[0])


def nodes_of(tree, inside_functions):
    for node in ast.iter_child_nodes(tree):
        if inside_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            yield from nodes_of(node, inside_functions)


def imports_of(path, inside_functions=True):
    """Full names of the modules that a file imports; at import only, or when called, too."""
    for node in nodes_of(ast.parse(path.read_text()), inside_functions):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: import by the full name"
            for alias in node.names:
                inner = ROOT / node.module.replace(".", "/") / alias.name
                is_module = inner.is_dir() or inner.with_suffix(".py").exists()
                yield f"{node.module}.{alias.name}" if is_module else node.module


def imports_tensorflow(path, inside_functions=True):
    return bool(TENSORFLOW & {name.split(".")[0] for name in imports_of(path, inside_functions)})


def own_imports_of(path):
    for name in imports_of(path):
        if name.startswith("solar_tf."):
            yield name.removeprefix("solar_tf.")


def test_every_module_has_its_place_in_the_order():
    modules = {name_of(path).split(".")[0] for path in SOURCES} - {""}
    assert modules == {layer for layer in LAYERS if not layer.startswith("---")}


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_module_imports_only_those_above_it(path):
    module = name_of(path)
    for imported in own_imports_of(path):
        folder = module.split(".")[0]
        if not (folder in FOLDERS and imported.split(".")[0] == folder):
            if not module:
                assert imported == "api", f"the package itself imports {imported}"
            else:
                assert layer_of(imported) < layer_of(module), imported


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_modules_of_a_folder_import_one_another_in_no_circle(folder):
    paths = [path for path in SOURCES if path.parent.name == folder]
    graph = {name_of(path): {*own_imports_of(path)} for path in paths}
    assert len(graph) > 3
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_tensorflow_is_imported_below_its_line_only(path):
    module = name_of(path)
    if module == "cli":  # loads it for the stages, once they have chosen a GPU
        assert not imports_tensorflow(path, inside_functions=False)
    elif not module or layer_of(module) < LINE:
        assert not imports_tensorflow(path)


def test_nothing_above_the_line_loads_tensorflow_by_way_of_another():
    """Spawned workers import these modules, and must start in a moment."""
    modules = [name_of(path) for path in SOURCES if name_of(path)]
    modules = [f"solar_tf.{module}" for module in modules if layer_of(module) < LINE]
    assert len(modules) > 20
    load_without_tensorflow(modules)


def load_without_tensorflow(modules):
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    assert not {'tensorflow', 'keras'} & sys.modules.keys(), name\n"
    )
    subprocess.run([sys.executable, "-c", code, *modules], cwd=ROOT, check=True)


def test_baselines_load_tensorflow_only_if_they_are_named_to():
    modules = [name_of(path) for path in SOURCES if path.parent.name == "baselines"]
    modules = [f"solar_tf.{name}" for name in modules if name not in TENSORFLOW_BASELINES]
    load_without_tensorflow(modules)


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
def test_a_stage_program_is_thin_and_imports_tensorflow_late(stage):
    path = ROOT / stage / f"{stage}.py"
    assert len(path.read_text().splitlines()) < 80
    assert not imports_tensorflow(path)
    for name in imports_of(path, inside_functions=False):
        if name.startswith("solar_tf."):
            assert layer_of(name.removeprefix("solar_tf.")) < LINE, name


def test_nothing_importable_lies_where_a_stage_program_looks_first():
    """`sys.path[0]` is the program's folder; installed, all three share the folder of scripts."""
    for folder in [*STAGES, "data"]:
        assert not list((ROOT / folder).rglob("__init__.py"))
    for stage in STAGES:
        assert [path.name for path in (ROOT / stage).glob("*.py")] == [f"{stage}.py"]
    taken = {path.stem for path in SOURCES} | {path.name for path in (ROOT / "solar_tf").iterdir()}
    assert not taken & {*STAGES, "data"}


@pytest.mark.parametrize(
    ("folder", "untested"),
    [
        ("", UNTESTED),
        ("datasets", UNTESTED_DATASETS),
        ("baselines", UNTESTED_BASELINES),
        ("report", UNTESTED_REPORT),
        ("serving", UNTESTED_SERVING),
        ("theory", UNTESTED_THEORY),
        ("reproduce", UNTESTED_REPRODUCE),
        ("distributed", UNTESTED_DISTRIBUTED),
        ("export", UNTESTED_EXPORT),
    ],
    ids=["", *FOLDERS],
)
def test_every_module_has_a_test_file_that_mirrors_it(folder, untested):
    modules = {path.stem for path in (ROOT / "solar_tf" / folder).glob("*.py")}
    tests = {
        path.stem.removeprefix("test_") for path in (ROOT / "tests" / folder).glob("test_*.py")
    }
    assert modules - tests <= untested.keys(), "write its tests, or say why it has none"
