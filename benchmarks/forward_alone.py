"""The forward passes of infer.py as a program, with its start and its end and nothing else.

bench_pipeline.py measures infer.py against it. Nothing is kept of the passes.
"""

from absl import flags

from solar_tf.cli import stages
from solar_tf.runtime import devices

stages.define_run_flag()


def main():
    devices.load_tensorflow()
    from solar_tf.retrieval.encoder import TensorFlowEncoder
    from solar_tf.retrieval.forward import query_batches
    from solar_tf.run.directory import open_run

    run = open_run(flags.FLAGS.run)
    encoder = TensorFlowEncoder(run)
    for chunk in run.trained_chunks():
        scores = encoder.load(run.paths.chunk(chunk))
        for inputs in query_batches(run, chunk, 0, run.summary["test"]["rows"]):
            scores(inputs)


if __name__ == "__main__":
    stages.run_stage(main)
