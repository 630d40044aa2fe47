"""Table 5 (appendix D): frequent and infrequent queries with top predictions, right or wrong.

Queries are drawn with a fixed seed, and none is left out. Beside them, what the paper's three
queries are to illustrate: P@1 and P@4 over all queries of each half.
"""

from solar_tf.analysis.report import samples
from solar_tf.analysis.report.results import (
    baseline_results,
    best_shortlist,
    predictions,
    solar_results,
)
from solar_tf.analysis.tables import Table
from solar_tf.reproduce import paper

EACH = 5  # of each kind: the authors looked at ten
RIVALS = ("glas", "dssm")  # whom to compare with, in this order; then the best baseline
KEY = "table_5"


def choose_rival(results):
    """GLaS as in the paper; without it another baseline, with what to say about it."""
    by_name = {result.method: result for result in results}
    for name in RIVALS:
        if name in by_name:
            return by_name[name]
    return max(results, key=lambda r: r.metrics["P@1"], default=None)


def make(run, source=None, each=EACH):
    """(samples, precision by half, names of the models) of a run, or None without titles."""
    frequencies = samples.query_frequencies(run)
    solar = best_shortlist(solar_results(run))
    if frequencies is None or solar is None:
        return None
    evidence = best_shortlist(solar_results(run), "evidence")
    rival = choose_rival(baseline_results(run))
    ids = {r.name: predictions(run, r)[0] for r in (solar, evidence, rival) if r}
    chosen = samples.pick(frequencies, each)
    source = source or samples.source_of(run)
    texts = samples.query_texts(source, [row for _, row in chosen]) if source else None
    shown = samples.describe(run, chosen, ids, texts)
    halves = {name: samples.precision_by_half(run, i, frequencies) for name, i in ids.items()}
    return shown, halves, bool(texts)


def render(found, dataset_title, reason=None):
    """Three tables: by half, the samples, and the paper's own."""
    title = f"Table 5 ({paper.SECTIONS[5]}) on {dataset_title}"
    if found is None:
        empty = Table(f"{title}: not run", ["model"], [], [reason or "not run"], KEY)
        return [empty, quoted()]
    shown, halves, texts = found
    rows = [
        [model, *(f"{values[kind][m]:.2f}" for kind in samples.KINDS for m in ("P@1", "P@4"))]
        for model, values in halves.items()
    ]
    header = ["model", *(f"{kind}: {m}" for kind in samples.KINDS for m in ("P@1", "P@4"))]
    notes = [
        "Measured here, on all test queries: the half whose words are more frequent in the "
        "training titles (summed), and the other."
    ]
    if not any("GLaS" in name for name in halves):
        others = [name for name in halves if not name.startswith("SOLAR")]
        stands = f": {others[0]} stands in for it" if others else ""
        notes.append(f"GLaS has not been run here{stands}.")
    by_half = Table(f"{title}: precision by half", header, rows, notes, f"{KEY}_halves")
    note = ["Measured here. Drawn with a fixed seed; none is left out. ✓ marks a true label."]
    if not texts:
        note.append("The texts are not at hand: shown are the known words, the rarest first.")
    return [by_half, _sample_table(f"{title}: samples", shown, note), quoted()]


def _sample_table(title, shown, notes):
    models = list(shown[0].predictions)
    rows = []
    for query in shown:
        lists = [query.predictions[model] for model in models]
        for rank in range(samples.TOP):
            first = [query.kind, query.text] if rank == 0 else ["", ""]
            cells = [_cell(found[rank]) if rank < len(found) else "-" for found in lists]
            rows.append([*first, str(rank + 1), *cells])
    return Table(title, ["", "query", "rank", *models], rows, notes, KEY)


def _cell(prediction):
    title, correct = prediction
    return f"✓ {title}" if correct else title


def quoted():
    """The paper's own Table 5, where single marks are not known."""
    rows = []
    for sample in paper.SAMPLES:
        for rank in range(samples.TOP):
            first = [sample.kind, sample.query] if rank == 0 else ["", ""]
            rows.append([*first, str(rank + 1), sample.solar[rank], sample.glas[rank]])
        counts = (
            f"{n} of {samples.TOP} correct" for n in (sample.solar_correct, sample.glas_correct)
        )
        rows.append(["", "", "", *counts])
    header = ["", "query", "rank", "SOLAR", "GLaS"]
    note = "Quoted; of ten queries that the authors looked at, they chose three."
    return Table("The paper's Table 5 (Amazon books)", header, rows, [note], f"{KEY}_paper")


def as_json(found):
    """The samples as plain values."""
    if found is None:
        return None
    shown, halves, _ = found
    return {
        "halves": halves,
        "samples": [
            {"row": s.row, "kind": s.kind, "query": s.text, "true_labels": s.num_true,
             "predictions": {model: [{"title": title, "correct": correct}
                                     for title, correct in rows]
                             for model, rows in s.predictions.items()}}
            for s in shown
        ],
    }  # fmt: skip
