"""Write a trained run for other programs, or its label vectors to an engine, and search there.

    python -m solar_tf.export saved_model RUN FOLDER               the query encoder, for TensorFlow
    python -m solar_tf.export quantized RUN FOLDER --precision int8     a smaller run, for searching
    python -m solar_tf.export qdrant RUN FOLDER                    qdrant-edge, in this process
    python -m solar_tf.export qdrant RUN http://127.0.0.1:6333     a Qdrant server
    python -m solar_tf.export milvus RUN http://127.0.0.1:19530    a Milvus server
    python -m solar_tf.export elasticsearch RUN FOLDER             mapping and bulk files
    python -m solar_tf.export opensearch RUN FOLDER
    python -m solar_tf.export qdrant RUN FOLDER --query "web forms"     search what was written

docs/export.md is about the first two; docs/engines.md says which engines were run here, and what
they need to rank as infer.py does.
"""

import importlib

from solar_tf.cli.programs import errors_explained, program
from solar_tf.run.directory import searchable

TARGETS = {  # the modules that have them
    "saved_model": "saved_model",
    "quantized": "quantized",
    "qdrant": "engines",
    "milvus": "engines",
    "elasticsearch": "engines",
    "opensearch": "engines",
}


def main(arguments=None):
    parser = program("solar_tf.export", __doc__)
    targets = parser.add_subparsers(dest="target", required=True, metavar="TARGET")
    for name, module in TARGETS.items():
        target = importlib.import_module(f"solar_tf.export.{module}")
        part = targets.add_parser(name, help=target.HELP[name], description=target.HELP[name])
        target.add_arguments(part)
        part.set_defaults(export=target.export)
    options = vars(parser.parse_args(arguments))
    with errors_explained():
        options["run"] = searchable(options["run"])
        options.pop("export")(**options)


if __name__ == "__main__":
    main()
