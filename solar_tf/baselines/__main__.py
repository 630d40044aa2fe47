"""Fit and evaluate one of the paper's competitors on a preprocessed run.

    python -m solar_tf.baselines NAME --run RUN [--setting value ...]
    python -m solar_tf.baselines NAME --help          its settings

NAME is one of: {names}.
Results go to RUN/baselines/NAME, or to RUN/baselines/OTHER with --save_as OTHER. Run again, it
goes on where it stopped; finished results are shown, not computed again.
"""

import dataclasses
import sys

from absl import flags

from solar_tf.baselines import BASELINES, baseline_class
from solar_tf.cli import stages
from solar_tf.errors import UserError

FLAGS = flags.FLAGS


def define_setting_flags(settings):
    """One flag per field; unset flags leave the default."""
    for field in dataclasses.fields(settings):
        default, facts = field.default, field.metadata
        text = f"{facts['help']} [{facts['source']}; default: {default}]"
        if facts["choices"]:
            flags.DEFINE_enum(field.name, None, facts["choices"], text)
        else:
            kinds = {int: flags.DEFINE_integer, float: flags.DEFINE_float, str: flags.DEFINE_string}
            kinds[type(default)](field.name, None, text)


def main(argv):
    usage = __doc__.format(names=", ".join(BASELINES))
    if len(argv) < 2 or argv[1] in ("-h", "--help"):
        print(usage)
        return
    name = argv.pop(1)
    try:
        kind = baseline_class(name)
    except UserError as error:
        sys.exit(f"error: {error}")
    stages.define_run_flag()
    flags.DEFINE_string("save_as", None, "Folder of the results below RUN/baselines [NAME].")
    if kind.presets:
        text = "Settings for data of this size; flags given beside it come first [the defaults]."
        flags.DEFINE_enum("preset", None, sorted(kind.presets), text)
    define_setting_flags(kind.Settings)
    sys.modules["__main__"].__doc__ = f"{kind.title}.\n\n{usage}"  # what --help shows

    def run():
        from solar_tf.baselines.runner import run_baseline

        fields = [field.name for field in dataclasses.fields(kind.Settings)]
        given = {field: FLAGS[field].value for field in fields if FLAGS[field].value is not None}
        if kind.presets and FLAGS.preset:
            given = kind.presets[FLAGS.preset] | given
        run_baseline(FLAGS.run, name, kind.Settings(**given), FLAGS.save_as)

    stages.run_stage(run)


if __name__ == "__main__":
    main(sys.argv)
