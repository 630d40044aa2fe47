"""The query encoder as a SavedModel: features of queries to buckets of all chunks (§3.3).

Inputs are flat: the rows' feature ids and values, and row_splits [n + 1]; row i has
ids[row_splits[i]:row_splits[i + 1]]. Ids are those of the vocabulary (or of the data's own
columns), values are counts (or the data's own values): weighting, feature hashing with each
chunk's seed and the networks are all inside. Dense inputs are one array, [n, d].

    signature "probabilities"   -> probabilities [n, K, B]
    signature "top_buckets"     (with a scalar m) -> buckets and values [n, K, m], best first

The vocabulary of a run of titles is among the model's assets: line i + 2 is the word of id i.
Looking up the labels is left to the inverted index, or to an engine.
"""

from pathlib import Path

import numpy as np

from solar_tf.errors import UserError
from solar_tf.run.changes import read_delta
from solar_tf.run.directory import open_run
from solar_tf.run.files import atomic_folder
from solar_tf.run.weights import load_weights, weight_shapes
from solar_tf.runtime import devices
from solar_tf.runtime.console import progress, say, size, table


def export(run, out, num_chunks=None):
    """Write the SavedModel `out` of a run."""
    if Path(out).exists():
        raise UserError(f"{out}: is there already: choose another folder, or delete it")
    opened = open_run(run)
    devices.load_tensorflow()
    import tensorflow as tf

    encoder = make_encoder(opened, opened.choose_chunks(num_chunks))
    with atomic_folder(out) as folder:
        signatures = {
            "probabilities": encoder.probabilities,
            "serving_default": encoder.probabilities,
            "top_buckets": encoder.top_buckets,
        }
        tf.saved_model.save(encoder, str(folder), signatures)
    total = sum(path.stat().st_size for path in Path(out).rglob("*") if path.is_file())
    rows = [("chunks x buckets", f"{len(encoder.models)} x {opened.config.num_buckets:,}")]
    rows += [("inputs", ", ".join(encoder.specs)), ("on disk", size(total))]
    say(table(("SavedModel", str(out)), rows))
    say(f"\nNext: saved_model_cli show --dir {out} --all")


def make_encoder(run, chunks):
    """The tf.Module of a run's chunks."""
    import tensorflow as tf

    from solar_tf.training.model import chunk_logits

    config, dense = run.config, run.dataset["kind"] == "dense"

    class Encoder(tf.Module):
        def __init__(self):
            super().__init__(name="solar_encoder")
            self.specs = {
                "ids": tf.TensorSpec([None], tf.int32),
                "values": tf.TensorSpec([None], tf.float32),
                "row_splits": tf.TensorSpec([None], tf.int32),
            }
            if dense:
                self.specs = {"dense": tf.TensorSpec([None, run.input_dim], tf.float32)}
            self.models, self.token_weights, self.vocabulary = [], None, None
            if run.paths.token_weights.exists():
                array = np.load(run.paths.token_weights, allow_pickle=False)
                self.token_weights = tf.Variable(array, trainable=False)
            if run.paths.vocabulary.exists():
                self.vocabulary = tf.saved_model.Asset(str(run.paths.vocabulary))
            shapes, changes = weight_shapes(config, run.input_dim), read_delta(run)
            with progress(len(chunks), "reading", "chunk") as bar:
                for chunk in chunks:
                    weights = load_weights(changes.weights(run, chunk), shapes, mapped=True)
                    self.models.append(
                        {name: tf.Variable(w, trainable=False) for name, w in weights.items()}
                    )
                    bar.update()
            m = tf.TensorSpec([], tf.int32, name="m")
            # The names of the arguments are those of the signatures' inputs.
            specs = [tf.TensorSpec(s.shape, s.dtype, name=n) for n, s in self.specs.items()]
            self.probabilities = tf.function(self._probabilities, specs)
            self.top_buckets = tf.function(self._top_buckets, [*specs, m])

        def _encode(self, inputs):
            """[n, K, B]"""
            encoded = []
            if not dense:
                inputs = inputs | {"values": self._weigh(**inputs)}
            for chunk, model in zip(chunks, self.models, strict=True):
                batch = inputs
                if not dense:
                    hashed = hash_ids(inputs["ids"], run.seeds[chunk], config.feature_dim)
                    batch = inputs | {"ids": hashed}
                encoded.append(tf.sigmoid(chunk_logits(batch, model)))
            return tf.stack(encoded, axis=1)

        def _weigh(self, ids, values, row_splits):
            """As solar_tf.preprocessing.features.weigh does."""
            if config.weighting == "counts":
                return values
            values *= tf.gather(self.token_weights, ids)
            rows = tf.ragged.row_splits_to_segment_ids(row_splits)
            num_rows = tf.size(row_splits) - 1
            squares = tf.math.unsorted_segment_sum(tf.square(values), rows, num_rows)
            lengths = tf.sqrt(squares)
            scale = config.feature_scale / tf.where(lengths > 0, lengths, 1)
            return values * tf.gather(scale, rows)

        def _probabilities(self, *arrays):
            return {"probabilities": self._encode(dict(zip(self.specs, arrays, strict=True)))}

        def _top_buckets(self, *arrays):
            *arrays, m = arrays
            values, buckets = tf.math.top_k(self._probabilities(*arrays)["probabilities"], m)
            return {"buckets": buckets, "values": values}

    return Encoder()


def hash_ids(ids, seed, width):
    """MurmurHash3 of int32 ids modulo `width`, as `preprocessing.hashing` has it (§3.2)."""
    import tensorflow as tf

    def number(value):
        return tf.constant(np.uint32(value))

    def rotate(x, bits):
        left = tf.bitwise.left_shift(x, number(bits))
        return tf.bitwise.bitwise_or(left, tf.bitwise.right_shift(x, number(32 - bits)))

    def shift_xor(x, bits):
        return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, number(bits)))

    x = rotate(tf.bitcast(ids, tf.uint32) * number(0xCC9E2D51), 15) * number(0x1B873593)
    x = rotate(tf.bitwise.bitwise_xor(x, number(seed)), 13) * number(5) + number(0xE6546B64)
    x = tf.bitwise.bitwise_xor(x, number(4))  # bytes
    x = shift_xor(x, 16) * number(0x85EBCA6B)
    x = shift_xor(x, 13) * number(0xC2B2AE35)
    signed = tf.cast(tf.bitcast(shift_xor(x, 16), tf.int32), tf.int64)
    return tf.cast(tf.math.floormod(signed, width), tf.int32)
