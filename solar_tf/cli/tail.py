"""Frequent and rare: where the hits of any model on a run come from.

    solar tail RUN              tables, one line for each model
    solar tail RUN --json       the same figures for programs

By the frequency of labels: those that training never saw (zero-shot, which §5.1 promises and
does not show), then tenths of the others. By the frequency of the query's words: the frequent and
the infrequent half of the test queries (appendix D). Models are SOLAR's rows of predictions.npz
and every baseline of the run.
"""

import json

from solar_tf.analysis.tail import measure, render
from solar_tf.cli.programs import program
from solar_tf.runtime.console import say


def main(arguments):
    parser = program("tail", __doc__)
    parser.add_argument("run", metavar="RUN", help="a run with predictions")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    facts = measure(options.run)
    say(json.dumps(facts, indent=2) if options.json else render(facts))
