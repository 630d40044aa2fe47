"""Fine-tune the chunks on new rows, with some of the old ones so that nothing is forgotten.

    solar tune RUN rows.txt --epochs 3 --replay 4

Rows are those of training, `label,label<TAB>text`, or any format of docs/data.md; their labels may
be ones that were added to the catalogue. Each chunk goes on from its weights (§3.2) with a small
learning rate. The tuned weights lie beside the trained ones, and take their place in searches and
in infer.py when all of them are there; the run as it was trained is not touched.
"""

from solar_tf.catalogue.tuning import EPOCHS, LEARNING_RATE, REPLAY, read_rows, tune
from solar_tf.cli.programs import program
from solar_tf.runtime.console import say, table
from solar_tf.runtime.devices import load_tensorflow


def main(arguments):
    parser = program("tune", __doc__)
    parser.add_argument("run", metavar="RUN", help="a trained run")
    parser.add_argument("rows", metavar="ROWS", help="a file of new rows")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help=f"[{EPOCHS}]")
    text = f"training rows learned from again, for each new one [{REPLAY:g}]"
    parser.add_argument("--replay", type=float, default=REPLAY, help=text)
    text = f"at the start; falls to zero [{LEARNING_RATE:g}]"
    parser.add_argument("--learning_rate", type=float, default=LEARNING_RATE, help=text)
    options = parser.parse_args(arguments)
    X, Y = read_rows(options.run, options.rows)
    load_tensorflow()
    count = tune(options.run, X, Y, options.epochs, options.replay, options.learning_rate)
    new = len(Y[0]) - 1
    say(table(("tuned", options.run), [("new rows", new), ("old rows", count - new)]))
    say(f"\nNext: infer.py --run {options.run}")
