"""Reproduce the paper's tables on a dataset at hand, with the paper's cells beside ours.

    solar reproduce --table 1                        Debian packages, the default
    solar reproduce --table all --dry_run            what it would take
    solar reproduce --table 2,3 --dataset Amazon-670K-dense
    solar reproduce --table 1 --train train.txt --test test.txt --labels labels.txt \\
        --name books200k --preset books200k
    solar reproduce --table 2 --models solar,parabel,slice
    solar reproduce --table 2 --models sleec --earlier elsewhere/tables
    solar reproduce --table 4 --ablation_chunks 8 --epochs 4          for a laptop

Table 1: SOLAR, DSSM, GLaS, SNRM and AnnexML. Table 2: SOLAR and the methods of extreme
classification. Table 3: their times. Table 4: B and K at m=25. Table 5: sample queries.
Runs that are missing are made in --out; interrupted, the same command goes on. Writes
tables/table_1.json, .md and .tex, ..., and report.html there.
"""

import os

from solar_tf.cli.flags import CONFIG, DATASET, FILES, add_flags, given_values, open_dataset
from solar_tf.cli.programs import program, whole_number
from solar_tf.config import load_preset
from solar_tf.errors import UserError
from solar_tf.reproduce import paper, plan
from solar_tf.reproduce.earlier import read_earlier
from solar_tf.runtime import devices
from solar_tf.runtime.console import say
from solar_tf.runtime.process import exit_when_terminated


def main(arguments):
    options = _parser().parse_args(arguments)
    exit_when_terminated()
    dataset = open_dataset(options, options.name)
    preset = options.preset or dataset.preset
    wish = plan.Wish(
        plan.parse_tables(options.table),
        plan.parse_models(options.models),
        plan.parse_settings(options.set),
        options.ablation_chunks,
        preset,
        read_earlier(options.earlier, dataset.name) if options.earlier else {},
    )
    known = paper.DATASETS
    if options.paper_dataset and options.paper_dataset not in known:
        raise UserError(f"--paper_dataset {options.paper_dataset}: choose of {', '.join(known)}")
    if dataset.test is None:
        raise UserError(f"{dataset.name}: no test rows to evaluate on: give --test")
    config = load_preset(preset, **given_values(options, CONFIG))
    by_card = {facts.card: key for key, facts in known.items()} if not options.train else {}
    paper_dataset = options.paper_dataset or by_card.get(dataset.name)
    folder, runs = plan.Folder(options.out), plan.plan(wish, config)
    if options.dry_run:
        devices.load_tensorflow()
        from solar_tf.reproduce.costs import costs

        say(costs(runs, folder, dataset, wish, options.workers).text())
        return
    device = devices.use_gpu(options.gpu)

    from solar_tf.analysis.report.run_page import write_report
    from solar_tf.reproduce import output
    from solar_tf.reproduce.execution import execute, main_run

    trainers = options.trainers or (1 if device == "GPU" else None)
    failed = execute(runs, folder, dataset, wish, trainers, options.workers)
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


def _parser():
    parser = program("reproduce", __doc__)
    text = "1, 2, 3, 4, 5, several of them, or all [default: all]."
    parser.add_argument("--table", type=_words, default=["all"], metavar="TABLES", help=text)
    text = "Folder of the runs, the tables and the page [default: reproduction]."
    parser.add_argument("--out", default="reproduction", help=text)
    text = "Those to run; the others' rows say: not run [default: all]."
    parser.add_argument("--models", type=_words, default=plan.MODELS, help=text)
    text = "A baseline's setting, such as sleec.learners=3; can be repeated."
    parser.add_argument("--set", action="append", default=[], metavar="SETTING", help=text)
    parser.add_argument(
        "--earlier",
        metavar="FOLDER",
        help="Tables of another reproduction on the same dataset: rows of models that are not run "
        "here come from there, marked.",
    )
    parser.add_argument(
        "--paper_dataset",
        help="Which of the paper's datasets your own files are (books, wiki500k, amazon670k, "
        "amazon3m): only then there are verdicts [default: by the dataset's card].",
    )
    text = "Only list the runs with estimated time and disk."
    parser.add_argument("--dry_run", action="store_true", help=text)
    chunks, cores = plan.ABLATION_CHUNKS, os.cpu_count()
    for name, least, default, text in (
        (
            "ablation_chunks",
            1,
            chunks,
            f"Largest K of Table 4; then half, quarter [{chunks}].",
        ),
        ("gpu", 0, 0, "GPU to train on; without such a GPU the CPU is used [0]."),
        ("workers", 1, cores, f"Processes that read, write and rank [{cores}]."),
        ("trainers", 1, None, "Chunks trained at a time [default: as train.py]."),
    ):
        parser.add_argument(f"--{name}", type=whole_number(least), default=default, help=text)
    data = parser.add_argument_group("data")
    data.add_argument("--name", help="What your own files are called in the tables.")
    add_flags(data, [*DATASET, *FILES])
    add_flags(parser.add_argument_group("hyper-parameters of SOLAR"), CONFIG)
    return parser


def _words(text):
    return [word for word in map(str.strip, text.split(",")) if word]
