"""Statistics and label frequencies of any data.

    solar describe train.txt test.txt --labels labels.txt --plot labels.png
    solar describe --dataset debian

All formats of docs/data.md are recognised, compressed or not.
"""

from solar_tf.cli.flags import add_files, open_given_files
from solar_tf.cli.programs import program
from solar_tf.datasets import description
from solar_tf.datasets.dataset import open_named
from solar_tf.datasets.statistics import Frequencies
from solar_tf.errors import UserError
from solar_tf.runtime.console import say


def main(arguments):
    parser = program("describe", __doc__)
    add_files(parser)
    parser.add_argument("--dataset", metavar="NAME", help="A dataset with a card, without FILEs.")
    parser.add_argument("--plot", metavar="PNG", help="Save the label frequencies as a picture.")
    options = parser.parse_args(arguments)
    if bool(options.files) == bool(options.dataset):
        raise UserError("give files, or a --dataset: see --help")
    dataset = open_named(options.dataset) if options.dataset else open_given_files(options)
    splits = description.collect_splits(dataset, options.workers)
    say(description.describe(dataset, splits))
    if options.plot:
        num_labels = description.count_labels(dataset, splits)
        frequencies = Frequencies.of(splits["train"].label_counts, num_labels)
        description.save_plot(options.plot, dataset.name, frequencies)
        say(f"\nThe plot is in {options.plot}")
