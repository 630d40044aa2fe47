"""Write a trained run for other programs.

python -m solar_tf.export saved_model RUN FOLDER               the query encoder, for TensorFlow
python -m solar_tf.export quantized RUN FOLDER --precision int8     a smaller run, for searching
"""

import argparse
import importlib

from solar_tf import cli

TARGETS = {  # the modules that have them
    "saved_model": "saved_model",
    "quantized": "quantized",
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
        part = targets.add_parser(name, help=target.HELP[name], description=target.HELP[name])
        target.add_arguments(part)
        part.set_defaults(export=target.export)
    options = vars(parser.parse_args(arguments))
    with cli.errors_explained():
        options.pop("export")(**options)


if __name__ == "__main__":
    main()
