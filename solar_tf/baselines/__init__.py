"""The paper's competitors (Tables 1 to 3), one module each, behind one interface.

    solar baseline parabel --run RUN

A baseline's module is imported when it is named, so that those without TensorFlow start fast.
"""

import importlib

from solar_tf.errors import UserError

BASELINES = {  # name: module and class
    "parabel": ("parabel", "Parabel"),
    "pfastrexml": ("pfastrexml", "PfastreXML"),
    "sleec": ("sleec", "Sleec"),
    "slice": ("slice", "Slice"),
    "annexml": ("annexml", "AnnexML"),
    "dssm": ("dssm", "Dssm"),
    "glas": ("glas", "Glas"),
    "snrm": ("snrm", "Snrm"),
    "knn": ("knn", "Knn"),  # not the paper's: a floor
}


def baseline_class(name):
    """The class of a baseline, by the name that the command line gives it."""
    if name not in BASELINES:
        raise UserError(f"{name!r} is no baseline: choose one of {', '.join(BASELINES)}")
    module, attribute = BASELINES[name]
    return getattr(importlib.import_module(f"solar_tf.baselines.{module}"), attribute)
