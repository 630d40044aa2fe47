"""The paper's competitors (Tables 1 to 3), one module each, behind one interface.

    solar baseline parabel --run RUN

    trees              parabel, pfastrexml
    near rows          annexml and sleec over `neighbours`; knn
    dense vectors      slice
    titles of labels   dssm, glas and snrm over `titles`, `towers` and `pair_training`

`interface` says what a baseline offers, `inputs` what it learns from, `runner` fits and evaluates
it. `dense_search` and `sparse_search` rank labels; `kernels` has the compiled loops.
A baseline's module is imported when it is named, so that those without TensorFlow start fast.
"""

import importlib

from solar_tf.errors import UserError

BASELINES = {  # module: class
    "parabel": "Parabel",
    "pfastrexml": "PfastreXML",
    "sleec": "Sleec",
    "slice": "Slice",
    "annexml": "AnnexML",
    "dssm": "Dssm",
    "glas": "Glas",
    "snrm": "Snrm",
    "knn": "Knn",  # not the paper's: a floor
}


def baseline_class(name):
    """The class of a baseline, by the name that the command line gives it."""
    if name not in BASELINES:
        raise UserError(f"{name!r} is no baseline: choose one of {', '.join(BASELINES)}")
    return getattr(importlib.import_module(f"solar_tf.baselines.{name}"), BASELINES[name])
