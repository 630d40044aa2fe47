"""Fit and evaluate one of the paper's competitors on a preprocessed run.

    solar baseline NAME --run RUN [--setting value ...]
    solar baseline NAME --help          its settings

NAME is one of: {names}.
Results go to RUN/baselines/NAME, or to RUN/baselines/OTHER with --save_as OTHER. Run again, it
goes on where it stopped; finished results are shown, not computed again.
"""

from solar_tf.baselines import BASELINES, baseline_class
from solar_tf.cli.flags import Flag, add_flags, field_flags, given_values
from solar_tf.cli.programs import program
from solar_tf.runtime.process import exit_when_terminated


def main(arguments):
    usage = __doc__.format(names=", ".join(BASELINES))
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage)
        return
    name, *rest = arguments
    kind = baseline_class(name)
    parser = program(f"baseline {name}", f"{kind.title}.\n\n{usage}")
    settings = field_flags(kind.Settings)
    text = "Folder of the results below RUN/baselines [default: NAME]."
    flags = [Flag("run", str, "run", "The run directory."), Flag("save_as", str, None, text)]
    if kind.presets:
        text = "Settings for data of this size; flags given beside it win [default: none]."
        flags.append(Flag("preset", sorted(kind.presets), None, text))
    add_flags(parser, flags + settings)
    options = parser.parse_args(rest)
    exit_when_terminated()
    from solar_tf.baselines.runner import run_baseline

    given = given_values(options, settings)
    if kind.presets and options.preset:
        given = kind.presets[options.preset] | given
    run_baseline(options.run, name, kind.Settings(**given), options.save_as)
