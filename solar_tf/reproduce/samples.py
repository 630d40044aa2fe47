"""Table 5 (appendix D): frequent and infrequent queries with top predictions, right or wrong.

Queries are drawn with a fixed seed, and none is left out. Beside them stands what the paper's
three queries are to illustrate: P@1 and P@4 over all queries of each half.
"""

from solar_tf.analysis.report.samples import TOP, draw
from solar_tf.analysis.results import (
    baseline_results,
    best_shortlist,
    predictions,
    solar_results,
)
from solar_tf.analysis.tables import Table
from solar_tf.analysis.tail import halves_table
from solar_tf.reproduce import paper

EACH = 5  # of each half: the authors looked at ten queries
RIVALS = ("glas", "dssm")  # baselines to compare with, in this order; then the best one
KEY = "table_5"


def choose_rival(results):
    """GLaS as in the paper; without it another baseline, or None."""
    by_name = {result.method: result for result in results}
    for name in RIVALS:
        if name in by_name:
            return by_name[name]
    return max(results, key=lambda r: r.metrics["P@1"], default=None)


def make(run, source=None):
    """The Samples of a run; None where SOLAR is not evaluated or the queries have no words."""
    results = solar_results(run)
    solar, evidence = best_shortlist(results), best_shortlist(results, "evidence")
    if solar is None:
        return None
    compared = filter(None, (solar, evidence, choose_rival(baseline_results(run))))
    ids = {result.name: predictions(run, result)[0] for result in compared}
    return draw(run, ids, EACH, source)


def render(found, dataset_title, reason=None):
    """Three tables: by half, the samples, and the paper's own."""
    title = f"Table 5 ({paper.SECTIONS[5]}) on {dataset_title}"
    if found is None:
        empty = Table(f"{title}: not run", ["model"], [], [reason or "not run"], KEY)
        return [empty, quoted()]
    notes = [
        "Measured here, on all test queries: the half whose words are more frequent in the "
        "training titles (summed), and the other."
    ]
    if not any("GLaS" in name for name in found.halves):
        others = [name for name in found.halves if not name.startswith("SOLAR")]
        stands = f": {others[0]} stands in for it" if others else ""
        notes.append(f"GLaS has not been run here{stands}.")
    by_half = halves_table(f"{title}: precision by half", found.halves, notes, f"{KEY}_halves")
    notes = ["Measured here. Drawn with a fixed seed; none is left out. ✓ marks a true label."]
    if not found.have_texts:
        notes.append("The texts are not at hand: shown are the known words, the rarest first.")
    rows = []
    for query in found.queries:
        lists = [
            [f"✓ {title}" if correct else title for title, correct in predicted]
            for predicted in query.predictions.values()
        ]
        rows += _ranked(query.half, query.text, lists)
    header = ["", "query", "rank", *found.halves]
    return [by_half, Table(f"{title}: samples", header, rows, notes, KEY), quoted()]


def _ranked(half, query, lists):
    """A row for each rank; half and query stand in the first one."""
    for rank in range(TOP):
        first = [half, query] if rank == 0 else ["", ""]
        cells = [titles[rank] if rank < len(titles) else "-" for titles in lists]
        yield [*first, str(rank + 1), *cells]


def quoted():
    """The paper's own Table 5, which does not say which single predictions are correct."""
    rows = []
    for sample in paper.samples():
        rows += _ranked(sample.half, sample.query, [sample.solar, sample.glas])
        rows.append(["", "", "", *sample.correct])
    header = ["", "query", "rank", "SOLAR", "GLaS"]
    note = "Quoted; of ten queries that the authors looked at, they chose three."
    return Table("The paper's Table 5 (Amazon books)", header, rows, [note], f"{KEY}_paper")


def as_json(found):
    """The samples as plain values."""
    if found is None:
        return None
    return {
        "halves": found.halves,
        "samples": [
            {
                "row": query.row,
                "kind": query.half,
                "query": query.text,
                "true_labels": query.num_true,
                "predictions": {
                    model: [{"title": title, "correct": correct} for title, correct in rows]
                    for model, rows in query.predictions.items()
                },
            }
            for query in found.queries
        ],
    }
