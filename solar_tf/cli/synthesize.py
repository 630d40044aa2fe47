"""Make data with a planted answer, of any size; prints the best that a learner can reach.

    solar synthesize --rows 1600000 --labels 1670000 --out planted

The same seed gives the same files (docs/data.md).
"""

import os

from solar_tf.cli.programs import program
from solar_tf.datasets.synthetic import FORMATS, Recipe, synthesize
from solar_tf.runtime.console import say, table

RECIPE = (  # name, type, default (None: must be given), meaning
    ("rows", int, None, "training rows"),
    ("labels", int, None, "labels (N)"),
    ("test_rows", int, -1, "test rows; -1 for a tenth of the training rows"),
    ("labels_per_row", float, Recipe.labels_per_row, "mean"),
    ("hidden", float, Recipe.hidden, "share of labels that a row does not show"),
    ("noise_words", int, Recipe.noise_words, "words of a row that say nothing"),
    ("label_exponent", float, Recipe.label_exponent, "of the frequencies' power law"),
    ("word_exponent", float, Recipe.word_exponent, "the same for the words"),
    ("dim", int, Recipe.dim, "values of a row of --format dense"),
    ("seed", int, Recipe.seed, "the same seed gives the same files"),
)


def main(arguments):
    options = _parser().parse_args(arguments)
    values = {name: getattr(options, name) for name, *_ in RECIPE}
    if options.test_rows == -1:
        values["test_rows"] = options.rows // 10
    card = synthesize(options.out, Recipe(**values), options.format)
    rows = [(key.replace("_", " "), f"{value:,}") for key, value in card["counts"].items()]
    say(table((card["name"], ""), rows))
    best = ", ".join(f"{name} {value}" for name, value in card["planted"]["ceiling"].items())
    say(f"\nThe best to be expected of a learner: {best}")
    files = {role: os.path.join(options.out, name) for role, name in card["files"].items()}
    flags = " ".join(f"--{role} {path}" for role, path in files.items())
    say(f"\nNext: preprocess.py {flags} --preset {card['preset']} --run my_run")


def _parser():
    parser = program("synthesize", __doc__)
    parser.add_argument("--out", default="synthetic", help="folder to make [synthetic]")
    parser.add_argument("--format", choices=FORMATS, default="titles", help="[titles]")
    for name, kind, default, text in RECIPE:
        if default is None:
            parser.add_argument(f"--{name}", type=kind, required=True, help=text)
        else:
            text = f"{text} [{default}]"
            parser.add_argument(f"--{name}", type=kind, default=default, help=text)
    return parser
