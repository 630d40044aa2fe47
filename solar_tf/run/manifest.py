"""config.json, and the manifest in records/summary.json.

Both may come from a stranger or a bad disk: every value is checked before it is used.
"""

import math

from solar_tf.config import SolarConfig
from solar_tf.errors import UserError
from solar_tf.run.checksums import are_facts
from solar_tf.run.files import read_json

FORMAT = 2  # of the run directory as a whole
READABLE = (1, 2)  # format 1 has no manifest: only some of its files carry checksums
# Options that the first runs of format 2 lack.
ADDED = ("own_label", "idf_power", "input_start", "grouped_share")
KINDS = ("text", "sparse", "dense")


def read_config(paths):
    """The content of config.json, checked, or None where there is none yet."""
    remedy = "restore it from a copy, or make a new run with preprocess.py"
    content = read_json(paths.config, remedy)
    if content is None:
        return None
    number = content.get("format") if isinstance(content, dict) else None
    if number not in READABLE or type(number) is not int:
        found = f"format {number}" if type(number) is int else "no format number"
        raise UserError(
            f"{paths.config}: {found}, and this version of solar_tf reads "
            f"{' and '.join(map(str, READABLE))}: make a new run with preprocess.py"
        )
    try:
        missing = {"config", "dataset", "seeds", *(["files"] if number > 1 else [])}
        if missing := missing - content.keys():
            raise UserError(f"no {', '.join(sorted(missing))} in it")
        # Options that older versions did not have are at their defaults.
        defaults = SolarConfig().to_dict()
        unknown = defaults if number == 1 else {name: defaults[name] for name in ADDED}
        content["config"] = SolarConfig.from_dict(unknown | content["config"])
        if not _is_sound(content):
            raise UserError("its values do not fit together")
    except (UserError, AttributeError, TypeError, LookupError, ValueError, OverflowError) as error:
        reason = error if isinstance(error, UserError) else "its values are not of the right types"
        raise UserError(f"{paths.config}: {reason}: {remedy}")
    return content


def _is_sound(content):
    dataset, seeds = content["dataset"], content["seeds"]
    first, second = dataset["propensity"]
    return (
        dataset["kind"] in KINDS
        and isinstance(dataset["name"], str)
        and all(0 < _whole(dataset[name]) < 2**31 for name in ("num_labels", "num_features"))
        and math.isfinite(first)
        and math.isfinite(second)
        and len(seeds) == content["config"].num_chunks
        and all(0 <= _whole(seed) < 2**32 for seed in seeds)
        and are_facts(content.get("files", {}))
    )


def _whole(value):
    """A whole number as it is; any other value, from a damaged file say, as -1."""
    return value if type(value) is int else -1


def read_summary(paths, number):
    """The content of summary.json in a run of format `number`, checked, or None."""
    remedy = "delete it and run preprocess.py again"
    content = read_json(paths.summary, remedy)
    if content is None:
        return None
    try:
        files = content.setdefault("files", {}) if number == 1 else content["files"]
        sound = are_facts(files)
        for split in ("train", "test"):
            rows, shards = _whole(content[split]["rows"]), _whole(content[split]["shards"])
            sound &= rows >= 0 and 0 <= shards <= (rows if number == 1 else len(files))
    except (KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise UserError(f"{paths.summary}: not the summary of a run: {remedy}")
    return content
