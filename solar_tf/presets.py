"""One configuration per dataset and table row; each value is marked "paper" or "ours"."""

import dataclasses

from solar_tf.config import SolarConfig
from solar_tf.errors import UserError

# The paper's runs. What a line does not name is SolarConfig's default, whose source is
# with the field.
PRESETS = {
    # Table 1: 1.67M books, titles on both sides, vocabulary of 763,265 words (§5.1).
    "books": SolarConfig(),
    # Table 2: "the hyper-parameters remain the same as the book recommendation dataset" (§5.2).
    "amazon3m": SolarConfig(),
    # Table 2: dense 512-d inputs, K=32 and B=20K (paper, §5.2); hidden_dim, batch_size and
    # epochs are ours, from the authors' published dense-input runs of a sister project.
    "wiki500k": SolarConfig(
        num_chunks=32, num_buckets=20_000, hidden_dim=1024, batch_size=1024, epochs=30
    ),
    "amazon670k": SolarConfig(
        num_chunks=32, num_buckets=20_000, hidden_dim=1024, batch_size=1024, epochs=30
    ),
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
# The same with grouped chunks, and places enough that few of the 92,523 words share one.
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
