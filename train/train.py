#!/usr/bin/env python3
"""Stage 2 of SOLAR: train the chunks, each a small network of its own.

    train.py --gpu 0                                 all chunks, one after another
    train.py --gpu 0 & train.py --gpu 1 & wait       two GPUs share the chunks
    train.py --chunks 4-7                            these only, for job arrays
    train.py --launcher ray --address head:6379 --num_gpus 1      by the nodes of a Ray cluster
    train.py --run s3://bucket/run                   a run in an object store (docs/distributed.md)

Can be killed at any moment and run again: finished chunks are kept, and an unfinished one
goes on from its last checkpoint. Hyper-parameters are those that preprocess.py was given.
"""

from absl import flags

from solar_tf.cli import stages
from solar_tf.runtime import devices

FLAGS = flags.FLAGS
stages.define_run_flag()
stages.define_launcher_flags(gpus=True)
flags.DEFINE_integer("gpu", 0, "GPU to train on; without such a GPU the CPU is used.", 0)
flags.DEFINE_string("chunks", None, "Chunks to train, such as 3 or 0-3 or 0,2,5 [default: all].")
flags.DEFINE_integer(
    "trainers",
    None,
    "Chunks trained at a time [default: 1 on a GPU; else what cores and memory allow].",
    1,
)
flags.DEFINE_float(
    "wait_seconds",
    None,
    "Wait so long for chunks that others hold, then fail [default: leave them; 120 with Ray].",
    0,
)
flags.DEFINE_float("checkpoint_minutes", 10, "Most minutes between two checkpoints.", 0)
flags.DEFINE_bool("tensorboard", False, "Write TensorBoard logs to RUN/tensorboard.")
flags.DEFINE_bool(
    "mixed_precision", False, "Multiply matrices in bfloat16; on GPUs and on CPUs that are able to."
)


def main():
    chunks = stages.parse_chunks(FLAGS.chunks)
    if FLAGS.launcher == "ray":
        from solar_tf.distributed import connect

        trainers = connect(FLAGS.run, FLAGS.address, FLAGS.num_cpus, FLAGS.num_gpus)
        devices.load_tensorflow()
        wait = 120.0  # a lost machine's locks on NFS go in 90 s
    else:
        device, wait = devices.use_gpu(FLAGS.gpu), 0.0
        trainers = FLAGS.trainers or (1 if device == "GPU" else None)

    from solar_tf.training.stage import train

    train(
        FLAGS.run,
        chunks,
        trainers=trainers,
        wait=wait if FLAGS.wait_seconds is None else FLAGS.wait_seconds,
        checkpoint_minutes=FLAGS.checkpoint_minutes,
        tensorboard=FLAGS.tensorboard,
        mixed_precision=FLAGS.mixed_precision,
    )


if __name__ == "__main__":
    stages.run_stage(main)
