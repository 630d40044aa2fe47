"""Render the tables of docs/baselines.md from what runs have measured.

    python benchmarks/render_baselines.py --debian RUN --books RUN --bibtex RUN [--solar_debian RUN]

Rows are those of RUN/baselines/*/metrics.json; SOLAR's are of RUN/metrics.json, or of another run
of the same dataset (--solar_NAME). What is read is kept in results/baselines/NAME.json, so that one
run at a time can be brought in; without any, the tables are rendered from that alone. The table of
costs is bench_baselines.py's.
"""

import argparse
import json
from pathlib import Path

from common import RESULTS

from solar_tf.runtime.console import seconds, size, table

DATASETS = ("bibtex", "debian", "books")
FOLDER = RESULTS / "baselines"
PAGE = RESULTS.parent.parent / "docs" / "baselines.md"
METRICS = ("P@1", "P@3", "P@5", "RP@5", "nDCG@5", "PSP@1", "PSP@5", "R@100")
SOLAR_SETTINGS = ("full", "m=100", "m=50")
ORDER = ("parabel", "pfastrexml", "sleec", "slice", "annexml")
WITHIN = 1.5  # points of a reference that a baseline must be in
REFERENCES = (  # P@1/3/5 on Bibtex, default settings
    ("parabel", "prepared (omikuji)", (63.2, 39.0, 28.4)),
    ("pfastrexml", "prepared", (63.2, 40.2, 29.4)),
    ("pfastrexml", "literature (XML-Repo)", (63.5, 39.2, 29.1)),
    ("sleec", "its paper", (65.3, 39.7, 28.9)),
    ("sleec", "prepared", (65.2, 40.4, 29.1)),
    ("slice", "prepared, SVD-300", (59.6, 36.9, 26.9)),
    ("annexml", "none", None),
)


def read_baselines(run):
    """The rows of a run's baselines, by the names of their folders."""
    rows = {}
    for path in sorted(Path(run).glob("baselines/*/metrics.json")):
        content = json.loads(path.read_text())
        row = content["rows"][0] | {"training_seconds": content["training_seconds"]}
        changed = sorted(
            f"{name} {value}"
            for name, value in content["settings"].items()
            if name in ("centre_rows", "idf_power", "learners", "dim")
            and path.parent.name != content["baseline"]
            and value not in (0, 1.0)
        )
        title = ", ".join([row["setting"], *(text.replace("_", " ") for text in changed)])
        rows[path.parent.name] = row | {"baseline": content["baseline"], "setting": title}
    return rows


def read_solar(run):
    """SOLAR's rows with evidence scores, by their settings; none where `infer.py` has not run."""
    path = Path(run) / "metrics.json"
    content = json.loads(path.read_text()) if path.exists() else {"rows": []}
    times = ("ms_forward", "ms_top_m", "ms_rank")
    return {
        row["setting"]: row
        | {
            "setting": f"SOLAR {row['setting']}, K={content['num_chunks']}, evidence",
            "training_seconds": content.get("training_seconds"),
            "ms_query": sum(row[name] or 0 for name in times),
        }
        for row in content["rows"]
        if row["score"] == "evidence" and row["setting"] in SOLAR_SETTINGS
    }


def order_of(name, row):
    return ORDER.index(row["baseline"]) if row["baseline"] in ORDER else len(ORDER), name


def cells(row):
    def cell(name, show):
        return "-" if row.get(name) is None else show(row[name])

    return [
        row["setting"],
        *(cell(name, "{:.2f}".format) for name in METRICS),
        cell("training_seconds", seconds),
        cell("ms_query", "{:.2f}".format),
        cell("ms_single", "{:.2f}".format),
        cell("peak_memory", size),
        cell("model_bytes", size),
    ]


def comparison(content):
    """All rows of one dataset, SOLAR's first."""
    rows = [content["solar"][name] for name in SOLAR_SETTINGS if name in content["solar"]]
    found = content["baselines"]
    rows += [found[name] for name in sorted(found, key=lambda name: order_of(name, found[name]))]
    header = ["training", "ms a query", "alone", "peak memory", "model size"]
    return table(["model", *METRICS, *header], [cells(row) for row in rows])


def against_references(content):
    rows = []
    for name, source, wanted in REFERENCES:
        row = content["baselines"].get(name)
        here = [row[f"P@{k}"] for k in (1, 3, 5)] if row else None
        gaps = [a - b for a, b in zip(here, wanted, strict=True)] if here and wanted else None
        rows.append(
            [
                row["setting"] if row else name,
                source,
                "/".join(f"{value:.1f}" for value in wanted) if wanted else "-",
                "/".join(f"{value:.2f}" for value in here) if here else "not run",
                "/".join(f"{gap:+.1f}" for gap in gaps) if gaps else "-",
                ("yes" if max(map(abs, gaps)) <= WITHIN else "no") if gaps else "-",
                seconds(row["training_seconds"]) if row else "-",
            ]
        )
    there, here = "P@1/3/5 there", "P@1/3/5 here"
    header = ["baseline", "reference from", there, here, "difference", f"within {WITHIN}"]
    return table([*header, "training"], rows)


def doubling():
    """What bench_baselines.py has written."""
    names = ("part", "against", "ours", "theirs", "unit", "ratio")
    rows = json.loads((RESULTS / "baselines.json").read_text())["rows"]
    return table(names, [[row[name] for name in names] for row in rows])


def place(text, name, content):
    """The page with the table between the two comments that name it replaced."""
    first, last = f"<!-- table {name} -->\n", f"<!-- end of table {name} -->"
    before, rest = text.split(first)
    return f"{before}{first}\n{content}\n\n{last}{rest.split(last)[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in DATASETS:
        parser.add_argument(f"--{name}", metavar="RUN")
        parser.add_argument(f"--solar_{name}", metavar="RUN")
    arguments = vars(parser.parse_args())
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = PAGE.read_text()
    for name in DATASETS:
        path = FOLDER / f"{name}.json"
        content = json.loads(path.read_text()) if path.exists() else {"solar": {}, "baselines": {}}
        if arguments[name]:
            content["baselines"] |= read_baselines(arguments[name])
        if solar := arguments[f"solar_{name}"] or arguments[name]:
            content["solar"] |= read_solar(solar)
        path.write_text(json.dumps(content, indent=2) + "\n")
        if name == "bibtex":
            text = place(text, "references", against_references(content))
        text = place(text, name, comparison(content))
    PAGE.write_text(place(text, "cost", doubling()))


if __name__ == "__main__":
    main()
