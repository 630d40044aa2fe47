#!/usr/bin/env python3
"""Stage 3 of SOLAR: evaluate a trained run, or ask it a question.

    infer.py                                         metrics on the test rows
    infer.py --top_buckets 100,10 --nofull           other values of m, no SOLAR-full
    infer.py --num_chunks 2                          the first chunks only; nothing is retrained
    infer.py --nogrouped                             the paper's random chunks only
    infer.py --query "python library for web forms"  the best labels for a text
    infer.py --launcher ray --address head:6379      by the nodes of a Ray cluster

Writes metrics.json and predictions.npz to the run directory.
"""

import os

from absl import flags

from solar_tf.cli import stages
from solar_tf.runtime import devices

FLAGS = flags.FLAGS
stages.define_run_flag()
stages.define_launcher_flags(gpus=True)
flags.DEFINE_list("top_buckets", ["100", "50", "25"], "m, buckets kept of each chunk.")
flags.DEFINE_bool("full", True, "Also score every label from all buckets (SOLAR-full).")
flags.DEFINE_multi_enum(
    "score",
    ["probability", "evidence"],
    ["probability", "evidence"],
    "How the buckets of a label add up: the paper's sum of probabilities, or of log(p / floor).",
)
flags.DEFINE_float("evidence_floor", 1e-4, "Probability from which evidence counts.", 1e-30, 1)
flags.DEFINE_integer("num_chunks", None, "Use only so many chunks [default: all].", 1)
flags.DEFINE_bool("grouped", True, "Also use grouped chunks, where the run has some.")
flags.DEFINE_integer("top_labels", 100, "Labels kept for each query.", 1)
flags.DEFINE_integer("workers", os.cpu_count(), "Processes that rank.", 1)
flags.DEFINE_integer("label_shards", 1, "Ranges of labels, each ranked by itself; same results.", 1)
flags.DEFINE_float("scratch_gb", 8, "Disk for SOLAR-full's probabilities at any time.", 0)
stages.define_memory_flag()
flags.DEFINE_string("query", None, "A text to answer, instead of the evaluation.")
flags.DEFINE_string("where", None, "With --query: attributes of labels, as section=web|net.")


def main():
    top_buckets = stages.parse_numbers("top_buckets", FLAGS.top_buckets)
    max_memory = stages.max_memory()
    options = {name: FLAGS[name].value for name in ("num_chunks", "grouped")}
    options["floor"] = FLAGS.evidence_floor
    if FLAGS.query is not None:
        from solar_tf.retrieval.searcher import answer

        options |= {"m": top_buckets[0], "score": FLAGS.score[-1], "where": FLAGS.where}
        answer(FLAGS.run, FLAGS.query, **options)
        return
    options |= {name: FLAGS[name].value for name in ("full", "top_labels", "label_shards")}
    options |= {
        "top_buckets": top_buckets,
        "scores": FLAGS.score,
        "scratch_bytes": FLAGS.scratch_gb * 1e9,
        "max_memory": max_memory,
    }
    if FLAGS.launcher == "ray":
        from solar_tf.distributed import connect

        cluster = connect(FLAGS.run, FLAGS.address, FLAGS.num_cpus, FLAGS.num_gpus)
        devices.load_tensorflow()
        from solar_tf.distributed.inference import infer

        infer(FLAGS.run, cluster=cluster, **options)
        return
    with stages.rankers_ahead(FLAGS.workers, max_memory):
        devices.load_tensorflow()
        from solar_tf.retrieval.evaluation import infer

        infer(FLAGS.run, workers=FLAGS.workers, **options)


if __name__ == "__main__":
    stages.run_stage(main)
