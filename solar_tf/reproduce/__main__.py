"""Reproduce the paper's tables on a dataset at hand, with the paper's cells beside ours.

    python -m solar_tf.reproduce --table 1                        Debian packages, the default
    python -m solar_tf.reproduce --table all --dry_run            what it would take
    python -m solar_tf.reproduce --table 2,3 --dataset Amazon-670K-dense
    python -m solar_tf.reproduce --table 1 --train train.txt --test test.txt --labels labels.txt \
        --name books200k --preset books200k
    python -m solar_tf.reproduce --table 2 --models solar,parabel,slice
    python -m solar_tf.reproduce --table 2 --models sleec --earlier elsewhere/tables
    python -m solar_tf.reproduce --table 4 --ablation_chunks 8 --epochs 4          for a laptop

Table 1: SOLAR, DSSM, GLaS, SNRM and AnnexML. Table 2: SOLAR and the methods of extreme
classification. Table 3: their times. Table 4: B and K at m=25. Table 5: sample queries.
Runs that are missing are made in --out; interrupted, the same command goes on. Writes
tables/table_1.json, .md and .tex, ..., and report.html there.
"""

import os

from absl import flags

from solar_tf.cli import stages
from solar_tf.reproduce import plan
from solar_tf.runtime import devices

FLAGS = flags.FLAGS
flags.DEFINE_list("table", ["all"], "1, 2, 3, 4, 5, several of them, or all.")
flags.DEFINE_string("out", "reproduction", "Folder of the runs, the tables and the page.")
stages.define_dataset_flags()
flags.DEFINE_string("name", None, "What your own files are called in the tables.")
flags.DEFINE_list("models", list(plan.MODELS), "Those to run; the others' rows say: not run.")
flags.DEFINE_multi_string("set", [], "A baseline's setting, such as sleec.learners=3.")
flags.DEFINE_string(
    "earlier",
    None,
    "Folder of tables of another reproduction on the same dataset: rows of models that are not "
    "run here come from there, marked.",
)
flags.DEFINE_integer(
    "ablation_chunks", plan.ABLATION_CHUNKS, "Largest K of Table 4; half and quarter follow.", 1
)
flags.DEFINE_string(
    "paper_dataset",
    None,
    "Which of the paper's datasets your own files are (books, wiki500k, amazon670k, amazon3m): "
    "only then there are verdicts [default: by the dataset's card].",
)
flags.DEFINE_bool("dry_run", False, "Only list the runs with estimated time and disk.")
flags.DEFINE_integer("gpu", 0, "GPU to train on; without such a GPU the CPU is used.", 0)
flags.DEFINE_integer("workers", os.cpu_count(), "Processes that read, write and rank.", 1)
flags.DEFINE_integer("trainers", None, "Chunks trained at a time [default: as train.py].", 1)
stages.define_config_flags()


def main():
    from solar_tf.config import load_preset
    from solar_tf.errors import UserError
    from solar_tf.reproduce import paper
    from solar_tf.reproduce.earlier import read_earlier
    from solar_tf.runtime.console import say

    dataset = stages.open_dataset(FLAGS.name)
    preset = FLAGS.preset or dataset.preset
    wish = plan.Wish(
        plan.parse_tables(FLAGS.table),
        plan.parse_models(FLAGS.models),
        plan.parse_settings(FLAGS.set),
        FLAGS.ablation_chunks,
        preset,
        read_earlier(FLAGS.earlier, dataset.name) if FLAGS.earlier else {},
    )
    known = paper.DATASETS
    if FLAGS.paper_dataset and FLAGS.paper_dataset not in known:
        raise UserError(f"--paper_dataset {FLAGS.paper_dataset}: choose of {', '.join(known)}")
    if dataset.test is None:
        raise UserError(f"{dataset.name}: no test rows to evaluate on: give --test")
    config = load_preset(preset, **stages.config_flags())
    by_card = {facts.card: key for key, facts in known.items()} if not FLAGS.train else {}
    paper_dataset = FLAGS.paper_dataset or by_card.get(dataset.name)
    folder, runs = plan.Folder(FLAGS.out), plan.plan(wish, config)
    if FLAGS.dry_run:
        devices.load_tensorflow()
        from solar_tf.reproduce.costs import costs

        say(costs(runs, folder, dataset, wish, FLAGS.workers).text())
        return
    device = devices.use_gpu(FLAGS.gpu)

    from solar_tf.analysis.report.__main__ import write_report
    from solar_tf.reproduce import output
    from solar_tf.reproduce.execution import execute, main_run

    trainers = FLAGS.trainers or (1 if device == "GPU" else None)
    failed = execute(runs, folder, dataset, wish, trainers, FLAGS.workers)
    if run := main_run(folder):
        write_report(run, source=dataset.test if dataset.kind == "text" else None)
    outcomes = output.collect(folder, wish, config, dataset, paper_dataset, failed)
    output.write(outcomes, folder, dataset)
    for outcome in outcomes:
        for table in outcome.tables:
            say(f"\n{table.text()}")
    for (name, model), reason in failed.items():
        say(f"\nnot run: {model} in {name}: {reason}")
    say(f"\nNext: open {folder.report} in a browser; Markdown and LaTeX are in {folder.tables}")


if __name__ == "__main__":
    stages.run_stage(main)
