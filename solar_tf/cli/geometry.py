"""Load and geometry of a run's label vectors, measured beside what the paper derives (§3.1, §3.3).

    solar geometry RUN              a report as text
    solar geometry RUN --json       the same facts for programs

The inverted indexes are said to be load-balanced, the label vectors near-orthogonal, the search
cheap and the labels' memory small: each claim gets its measured figure. Queries count once
infer.py has run.
"""

import json

from solar_tf.analysis.geometry import PAIRS, measure, render
from solar_tf.cli.programs import program
from solar_tf.errors import UserError
from solar_tf.run.directory import open_run
from solar_tf.runtime.console import say


def main(arguments):
    parser = program("geometry", __doc__)
    parser.add_argument("run", metavar="RUN", help="a run directory after preprocess.py")
    parser.add_argument("--json", action="store_true", help="print the facts as JSON")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="pairs of labels to sample")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    options = parser.parse_args(arguments)
    if options.pairs < 1 or options.seed < 0:
        raise UserError("--pairs must be above 0, and --seed not below")
    facts = measure(open_run(options.run), options.pairs, options.seed)
    say(json.dumps(facts, indent=2) if options.json else render(facts))
