#!/usr/bin/env python3
"""Stage 1 of SOLAR: label buckets, inverted indexes and TFRecords.

    preprocess.py                                    the embedded default, Debian packages
    preprocess.py --train train.txt --test test.txt --labels labels.txt --run my_run
    preprocess.py --train train.txt --preset debian --num_chunks 8 --epochs 20
    preprocess.py --train trn.json.gz --test tst.json.gz --labels lbl.json.gz
    preprocess.py --train trn_X_Xf.txt --test tst_X_Xf.txt        finds trn_X_Y.txt, tst_X_Y.txt
    preprocess.py --train train.txt --launcher ray --address head:6379     on a Ray cluster
    preprocess.py --preset books --estimate          what it would take; nothing is written

Rows are titles, `label,label<TAB>text`, or the XML-Repo's `label,label feature:value ...`
under a header `rows features labels`, or one of the other formats of docs/data.md; the format
is recognised. Compressed files (.gz, .xz) are read as they are. Line i of the labels file is
the title of label i.
"""

import os

from absl import flags

from solar_tf.cli import stages
from solar_tf.runtime import devices

FLAGS = flags.FLAGS
stages.define_run_flag()
stages.define_dataset_flags()
stages.define_launcher_flags()
flags.DEFINE_integer("workers", os.cpu_count(), "Processes that read, hash and write.", 1)
stages.define_memory_flag()
flags.DEFINE_bool("estimate", False, "Only print what the run will take: memory, disk, time.")
stages.define_config_flags()


def main():
    from solar_tf.config import load_preset
    from solar_tf.preprocessing.stage import preprocess

    dataset = stages.open_dataset()
    config = load_preset(FLAGS.preset or dataset.preset, **stages.config_flags())
    if FLAGS.estimate:
        devices.load_tensorflow()
        from solar_tf.operations.estimate import report
        from solar_tf.run.directory import run_directory

        report(run_directory(FLAGS.run).root, dataset, config, FLAGS.workers)
        return
    workers = FLAGS.workers
    if FLAGS.launcher == "ray":
        from solar_tf.distributed import connect

        workers = connect(FLAGS.run, FLAGS.address, FLAGS.num_cpus)
    preprocess(FLAGS.run, dataset, config, workers, stages.max_memory())


if __name__ == "__main__":
    stages.run_stage(main)
