"""Write the label vectors of a run to an engine for sparse vectors, or search there.

    python -m solar_tf.export qdrant RUN FOLDER                    qdrant-edge, in this process
    python -m solar_tf.export qdrant RUN http://127.0.0.1:6333     a Qdrant server
    python -m solar_tf.export milvus RUN http://127.0.0.1:19530    a Milvus server
    python -m solar_tf.export elasticsearch RUN FOLDER             mapping and bulk files
    python -m solar_tf.export opensearch RUN FOLDER
    python -m solar_tf.export qdrant RUN FOLDER --query "web forms"     search what was written

docs/engines.md says which of them were run here, and what they need to rank as infer.py does.
"""

import argparse
import importlib

from solar_tf import cli

TARGETS = {  # the modules that have them
    "qdrant": "engines",
    "milvus": "engines",
    "elasticsearch": "engines",
    "opensearch": "engines",
}


def main(arguments=None):
    parser = argparse.ArgumentParser(
        "python -m solar_tf.export",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    targets = parser.add_subparsers(dest="target", required=True, metavar="TARGET")
    for name, module in TARGETS.items():
        target = importlib.import_module(f"solar_tf.export.{module}")
        part = targets.add_parser(name, help=target.HELP[name])
        target.add_arguments(part)
        part.set_defaults(export=target.export)
    options = vars(parser.parse_args(arguments))
    with cli.errors_explained():
        options.pop("export")(**options)


if __name__ == "__main__":
    main()
