"""The configuration of a run, frozen, validated and saved as JSON; and the named presets.

Every field says where its default comes from: a section of the paper, or "ours", with the reason
in docs/paper_notes.md.
"""

import dataclasses
import math
import typing
from dataclasses import dataclass

from solar_tf.errors import UserError


def _field(default, source, text):
    return dataclasses.field(default=default, metadata={"source": source, "help": text})


class PlainSettings:
    """A dataclass of numbers and strings, as a dict and back."""

    def to_dict(self):
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, content):
        """The inverse of `to_dict`; an unknown or missing key is an error."""
        known = {field.name for field in dataclasses.fields(cls)}
        if content.keys() != known:
            odd = ", ".join(sorted(content.keys() ^ known))
            raise UserError(f"settings that are unknown or missing: {odd}")
        return cls(**content)


@dataclass(frozen=True)
class SolarConfig(PlainSettings):
    """Everything that decides what is learned; the defaults are the paper's books run (§5.1)."""

    num_chunks: int = _field(16, "paper §5.1", "K, independent small models")
    num_buckets: int = _field(30_000, "paper §5.1", "B, buckets of each chunk")
    feature_dim: int = _field(
        100_000, "paper §5.1", "input width that sparse features are hashed to"
    )
    hidden_dim: int = _field(4096, "paper §5.1", "width of the one hidden layer")
    batch_size: int = _field(1000, "paper §5.1", "rows of a training step")
    epochs: int = _field(10, "paper Table 1", "passes over the training rows")
    learning_rate: float = _field(1e-3, "ours", "step size of Adam")
    decay: str = _field("none", "ours", "learning rate over time: none, or linear down to zero")
    optimizer: str = _field(
        "lazy_adam",
        "ours",
        "lazy_adam moves only the input rows that a batch touches; adam moves all of them",
    )
    init_stddev: float = _field(0.05, "ours", "sd of the truncated normal that weights start from")
    weighting: str = _field("counts", "paper §5.1", "token values: counts (BoW) or tfidf")
    idf_power: float = _field(
        1.0, "ours", "power of the IDF in tfidf: above 1, frequent words fade further"
    )
    feature_scale: float = _field(
        1.0, "ours", "length of a TF-IDF row; counts are left as they are"
    )
    input_dropout: float = _field(0.0, "ours", "share of tokens dropped from a row in training")
    dropout: float = _field(0.0, "ours", "share of hidden units dropped in training")
    bias_start: str = _field(
        "zeros", "ours", "output bias at the start: zeros, or log_odds of each bucket's frequency"
    )
    input_start: str = _field(
        "random",
        "ours",
        "input layer at the start: random, or along the gradient of all rows, one pass more",
    )
    own_label: str = _field(
        "leave",
        "ours",
        "training rows titled exactly like a label: leave their labels, or add that label",
    )
    grouped_share: float = _field(
        0.0, "paper §3.1", "fraction of the chunks that group similar labels; 0 is the paper"
    )
    min_count: int = _field(1, "ours", "words found in fewer training rows are left out")
    seed: int = _field(0, "ours", "of weights, shuffling and dropout; hash seeds are the chunks'")

    def __post_init__(self):
        for name, expected in typing.get_type_hints(type(self)).items():
            value = getattr(self, name)
            if expected is float and type(value) is int:
                object.__setattr__(self, name, float(value))
            elif type(value) is not expected:
                raise UserError(f"{name} must be of type {expected.__name__}, not {value!r}")
            elif expected is float and not math.isfinite(value):
                raise UserError(f"{name} must be a finite number, not {value}")
            elif expected is int and value >= 2**31:  # hashes and ids are int32
                raise UserError(f"{name} must be below 2^31, not {value}")
        for name, value in self.to_dict().items():
            if name not in (*CHOICES, *MAY_BE_ZERO) and value <= 0:
                raise UserError(f"{name} must be above 0, not {value}")
        for name in ("dropout", "input_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 0 and below 1, not {getattr(self, name)}")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise UserError(
                    f"{name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}"
                )
        if not 0 <= self.grouped_share <= 1:
            raise UserError(f"grouped_share must be from 0 to 1, not {self.grouped_share}")
        if self.seed < 0:
            raise UserError(f"seed must be at least 0, not {self.seed}")

    def is_grouped(self, chunk):
        """Whether this chunk puts similar labels into one bucket."""
        return math.floor(chunk * self.grouped_share) > math.floor((chunk - 1) * self.grouped_share)


CHOICES = {
    "decay": ("none", "linear"),
    "optimizer": ("lazy_adam", "adam"),
    "weighting": ("counts", "tfidf"),
    "bias_start": ("zeros", "log_odds"),
    "input_start": ("random", "gradient"),
    "own_label": ("leave", "add"),
}
MAY_BE_ZERO = ("dropout", "input_dropout", "grouped_share", "seed")  # of the numbers


# The presets: one configuration per dataset and table row.

# Table 2: dense 512-d inputs, K=32 and B=20K (paper, §5.2); hidden_dim, batch_size and
# epochs are ours, from the authors' published dense-input runs of a sister project.
DENSE = SolarConfig(num_chunks=32, num_buckets=20_000, hidden_dim=1024, batch_size=1024, epochs=30)
PRESETS = {
    # Table 1: 1.67M books, titles on both sides, vocabulary of 763,265 words (§5.1).
    "books": SolarConfig(),
    # Table 2: "the hyper-parameters remain the same as the book recommendation dataset" (§5.2).
    "amazon3m": SolarConfig(),
    "wiki500k": DENSE,
    "amazon670k": DENSE,
    # The embedded default, all ours: docs/paper_notes.md has the effect of each value.
    "debian": SolarConfig(
        num_chunks=6,
        num_buckets=3000,
        feature_dim=40_000,
        hidden_dim=256,
        batch_size=256,
        epochs=11,
        learning_rate=3e-3,
        decay="linear",
        weighting="tfidf",
        feature_scale=3.0,
        dropout=0.3,
        bias_start="log_odds",
    ),
}
# Titles of books, a ninth of the paper's Table 1, all ours: docs/books.md has the search.
PRESETS["books200k"] = dataclasses.replace(
    PRESETS["debian"],
    num_chunks=16,
    num_buckets=4000,
    feature_dim=100_000,
    hidden_dim=1024,
    batch_size=512,
    epochs=8,
    dropout=0.4,
    input_dropout=0.2,
    idf_power=2.0,
    own_label="add",
)
# The same with grouped chunks, and an input so wide that few of the 92,523 words collide.
PRESETS["books200k_grouped"] = dataclasses.replace(
    PRESETS["books200k"], grouped_share=0.25, feature_dim=200_000
)
# A million labels on two cores, all ours: docs/million.md.
PRESETS["commits"] = dataclasses.replace(
    PRESETS["debian"],
    num_chunks=8,
    num_buckets=8000,
    feature_dim=100_000,
    hidden_dim=128,
    batch_size=512,
    epochs=1,
    dropout=0.0,
    min_count=2,
)
SIZES = ("num_chunks", "num_buckets", "feature_dim", "hidden_dim", "batch_size", "epochs")
# The paper's plain network at the embedded default's size: bag of words, no dropout, no
# decay, bias at zero.
PRESETS["debian_plain"] = dataclasses.replace(
    SolarConfig(), **{name: getattr(PRESETS["debian"], name) for name in SIZES}
)


def load_preset(name, **changes):
    """A preset by name, with single hyper-parameters replaced."""
    if name not in PRESETS:
        raise UserError(f"unknown preset {name!r}: choose one of {', '.join(sorted(PRESETS))}")
    return dataclasses.replace(PRESETS[name], **changes)
