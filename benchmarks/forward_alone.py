"""The forward passes of infer.py as a program, with its start and its end and nothing else.

bench_pipeline.py measures infer.py against it. Nothing is kept of the passes.
"""

from absl import flags

from solar_tf import cli

cli.define_run_flag()


def main():
    cli.load_tensorflow()
    from solar_tf.forward import Forward, query_batches
    from solar_tf.rundir import open_run

    run = open_run(flags.FLAGS.run)
    function = Forward(run)
    for chunk in run.trained_chunks():
        scores = function.load(chunk)
        for inputs in query_batches(run, chunk, 0, run.summary["test"]["rows"]):
            scores(inputs)


if __name__ == "__main__":
    cli.run_stage(main)
