"""Commands that compare SOLAR with the paper: its competitors, and its tables."""

import inspect

from solar_tf.baselines import BASELINES, baseline_class
from solar_tf.cli import flags
from solar_tf.cli.programs import program, whole_number
from solar_tf.config import load_preset
from solar_tf.errors import UserError
from solar_tf.reproduce import paper, plan
from solar_tf.reproduce.earlier import read_earlier
from solar_tf.runtime import devices
from solar_tf.runtime.console import say
from solar_tf.runtime.process import exit_when_terminated


def _words(text):
    return [word for word in map(str.strip, text.split(",")) if word]


REPRODUCE = (
    ("table", _words, "all", "1, 2, 3, 4, 5, several of them, or all."),
    ("out", str, "reproduction", "Folder of the runs, the tables and the page."),
    ("models", _words, ",".join(plan.MODELS), "Models to run; rows of others say: not run."),
    ("earlier", str, None, "Tables of another reproduction, for rows of models not run here."),
    ("ablation_chunks", whole_number(1), plan.ABLATION_CHUNKS, "Largest K of Table 4."),
    (
        "paper_dataset",
        str,
        None,
        "Which of the paper's datasets your own files are (books, wiki500k, amazon670k, amazon3m): "
        "only then there are verdicts [default: by the dataset's card].",
    ),
    ("name", str, None, "What your own files are called in the tables."),
    ("gpu", whole_number(0), 0, "GPU to train on; without such a GPU the CPU is used."),
    flags.WORKERS,
    ("trainers", whole_number(1), None, "Chunks trained at a time [default: as train.py]."),
)


def baseline(arguments):
    """Fit and evaluate one of the paper's competitors on a preprocessed run.

        solar baseline NAME --run RUN [--setting value ...]
        solar baseline NAME --help          its settings

    NAME is one of: {names}.
    Results go to RUN/baselines/NAME, or to RUN/baselines/OTHER with --save_as OTHER. An interrupted
    command goes on where it stopped; finished results are shown, not computed again.
    """
    usage = inspect.cleandoc(baseline.__doc__).format(names=", ".join(BASELINES))
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage)
        return
    name, *rest = arguments
    kind = baseline_class(name)
    parser = program(f"baseline {name}", f"{kind.title}.\n\n{usage}")
    flags.add_flags(parser, [("run", str, "run", "the run directory")])
    parser.add_argument("--save_as", help="folder of the results below RUN/baselines [NAME]")
    if kind.presets:
        text = "settings for data of this size; flags given beside it win [none]"
        parser.add_argument("--preset", choices=sorted(kind.presets), help=text)
    settings = flags.field_flags(kind.Settings)
    flags.add_flags(parser, settings)
    options = parser.parse_args(rest)
    exit_when_terminated()
    from solar_tf.baselines.runner import run_baseline

    values = kind.presets.get(getattr(options, "preset", None), {})
    values = values | flags.given_values(options, settings)
    run_baseline(options.run, name, kind.Settings(**values), options.save_as)


def reproduce(arguments):
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
    classification. Table 3: their times. Table 4: B and K at m=25, for --ablation_chunks as the
    largest K, its half and its quarter. Table 5: sample queries.
    Makes the missing runs in --out and writes tables/table_1.json, .md and .tex, ..., and
    report.html there. After an interruption the same command goes on.
    """
    parser = program("reproduce", reproduce.__doc__)
    text = "Only list the runs with estimated time and disk."
    parser.add_argument("--dry_run", action="store_true", help=text)
    text = "A baseline's setting, such as sleec.learners=3; can be repeated."
    parser.add_argument("--set", action="append", default=[], help=text)
    flags.add_flags(parser, [*REPRODUCE, *flags.DATASET, *flags.FILES, *flags.CONFIG])
    options = parser.parse_args(arguments)
    exit_when_terminated()
    dataset = flags.open_dataset(options, options.name)
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
    config = load_preset(preset, **flags.given_values(options, flags.CONFIG))
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
