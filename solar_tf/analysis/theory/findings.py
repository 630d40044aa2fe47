"""The checks as a page: what the paper says, what the numbers say, a table, a chart."""

from dataclasses import dataclass, field

from solar_tf.analysis.charts import Chart, number
from solar_tf.analysis.report.page import figure, grid, page, paragraph, titled
from solar_tf.analysis.tables import Table
from solar_tf.analysis.theory import lemma, orthogonality, work
from solar_tf.runtime.console import progress, size
from solar_tf.runtime.provenance import machine

BOOKS = 1_675_657  # labels of the paper's books


@dataclass
class Finding:
    key: str
    title: str
    claim: str  # the paper's
    answer: str
    tables: list
    charts: list = field(default_factory=list)  # (title, caption, Chart)


def measure(quick=False):
    """All Findings; `quick` takes small sizes only."""
    makers = (near_orthogonal, deferred, enough, decodes, operations, memory)
    found = []
    with progress(len(makers), "checking", "claim") as bar:
        for make in makers:
            found.append(make(quick))
            bar.update()
    return found


def near_orthogonal(quick):
    labels = (1000, 10_000) if quick else (10_000, 100_000, 1_000_000)
    buckets = (100, 1000) if quick else (1000, 10_000, 30_000)
    rows = [orthogonality.overlap(n, 16, b) for n in labels for b in buckets]
    rows += [orthogonality.overlap(labels[1], k, buckets[1]) for k in (1, 4, 64)]
    table = Table(
        "Dot products of label vectors",
        ["N", "K", "B", "K/B", "mean of all pairs", "standard deviations off", "most met",
         "squared cosines with all others", "expected"],
        [[f"{r['num_labels']:,}", str(r["num_chunks"]), f"{r['num_buckets']:,}",
          f"{r['expected']:.6f}", f"{r['measured']:.6f}", f"{r['deviations']:+.1f}",
          str(r["most"]), f"{r['interference']:.3f}", f"{r['expected_interference']:.3f}"]
         for r in rows],
        key="dot_products",
    )  # fmt: skip
    chart = Chart("K/B", "mean dot product", x_log=True, y_log=True)
    xs = sorted({r["expected"] for r in rows})
    chart.line("K/B", xs, xs, 7, dots=False)
    for i, n in enumerate(labels):
        mine = [r for r in rows if r["num_labels"] == n]
        chart.points(f"N={n:,}", [r["expected"] for r in mine], [r["measured"] for r in mine], i)
    return Finding(
        "orthogonality",
        "Near-orthogonality of the label vectors (§3.1)",
        "The expected dot product of two label vectors is K/B, nearly 0.",
        "Holds. The mean over all pairs, counted exactly from the bucket sizes, is K/B within the "
        "few standard deviations that chance allows, for every N and B: it does not depend on N. "
        "What does grow with N is the sum over all other labels: a label's squared cosines add up "
        "to (N - 1) / (KB), nearly N/D, which is 3.5 for the paper's books. Near-orthogonal pairs "
        "are not a nearly orthogonal set.",
        [table],
        [("Mean dot product against K/B", "All pairs, exactly; the line is equality.", chart)],
    )


def deferred(quick):
    rows = [lemma.transformation(n) for n in ((8, 64) if quick else (8, 64, 512))]
    names = [name for name in rows[0] if name != "n"]
    first = Table(
        "Lemma 1, largest error of an entry",
        ["n", *names],
        [[str(r["n"]), *(f"{r[name]:.1e}" for name in names)] for r in rows],
        key="lemma",
    )
    kernels = lemma.deferred()
    second = Table(
        "Theorem 1 by kernel, n = 64 labels",
        ["kernel S", "largest |S(f_I, f_L) - S(P f_I, R)|", "smallest / largest eigenvalue"],
        [[r["kernel"], f"{r['error']:.1e}", f"{r['smallest_eigenvalue']:.1e}"] for r in kernels],
        key="theorem",
    )
    odd = lemma.counterexample()
    return Finding(
        "lemma",
        "The transformation lemma and the law of deferred orthogonality (§4, appendix C)",
        "For two orthonormal bases there is an orthogonal P with A = PB; so for any positive "
        "semi-definite kernel, learning the inputs alone is as good as learning both sides.",
        "The lemma holds to rounding with P = A B^T. The matrix that appendix C writes down, "
        "P_ij = a_i.b_j, is another one: it gives A = B P^T for vectors in columns (and A = PB for "
        "vectors in rows). The theorem holds for kernels of inner products and lengths, which P "
        "leaves alone: cosine, polynomial, Gaussian. For *any* positive semi-definite kernel it "
        "does not: with S(u, v) = sum of u_i^2 v_i^2, the standard basis as f_L and Hadamard's as "
        f"R, every f gives all labels the same score (spread {odd['spread_fixed']:.0e} of the "
        f"mean, where f_L's is {odd['spread_learned']:.1f}), so no f can stand in. SOLAR uses "
        "the inner product, for which it is true.",
        [first, second],
    )


def enough(quick):
    chunks, buckets = (4, 50) if quick else (4, 100)
    dimension = chunks * buckets
    shares = (0.25, 0.5, 0.9, 1.0, 1.5, 2.0, 3.5)
    rows = [orthogonality.independence(int(s * dimension), chunks, buckets) for s in shares]
    table = Table(
        f"Arbitrary scores from fixed label vectors, D = {dimension}",
        ["N", "N/D", "rank of the vectors", "share of the scores out of reach", "1 - rank/N"],
        [[f"{r['num_labels']:,}", f"{r['num_labels'] / r['dimension']:.2f}", f"{r['rank']:,}",
          f"{r['residual']:.3f}", f"{r['expected_residual']:.3f}"] for r in rows],
        key="independence",
    )  # fmt: skip
    chart = Chart("N/D", "share out of reach")
    xs = [r["num_labels"] / r["dimension"] for r in rows]
    chart.line("measured", xs, [r["residual"] for r in rows], 0)
    chart.line("1 - rank/N", xs, [r["expected_residual"] for r in rows], 1, dashed=True, dots=False)
    return Finding(
        "one_sided",
        "Is one-sided learning all we need? (§4)",
        "Label vectors that are fixed and orthogonal lose nothing.",
        "The premise, an orthonormal basis, needs N <= D. Three of the paper's four runs have N "
        "above D (books: 1.68M labels in 480K dimensions, N/D = 3.5; Amazon-3M: 5.9; Amazon-670K: "
        "1.05; Wiki-500K: 0.8). Up to about D, orthogonality is not even needed: linearly "
        "independent vectors can give any scores. Beyond it, a share 1 - rank/N of arbitrary "
        "scores is out of reach of every f. Relevance is not arbitrary, though: it is a few ones "
        "among millions of zeros, and the next section shows why those survive.",
        [table],
        [("What fixed vectors cannot express", "Random scores, least squares.", chart)],
    )


def decodes(quick):
    num_labels, buckets, true = (20_000, 200, 5) if quick else (500_000, 1000, 5)
    rows = [orthogonality.decoding(num_labels, k, buckets, true) for k in (1, 2, 3, 4)]
    table = Table(
        "Wrong labels that a perfect query cannot tell from its true ones",
        ["N", "K", "B", "true labels", "measured", "N (1 - (1 - 1/B)^r)^K"],
        [[f"{r['num_labels']:,}", str(r["num_chunks"]), f"{r['num_buckets']:,}",
          str(r["num_true"]), number(r["measured"]), number(r["expected"])] for r in rows]
        + [[f"{BOOKS:,}", str(k), "30,000", "36", "-",
            number(orthogonality.expected_wrong(BOOKS, k, 30_000, 36))] for k in (1, 2, 4, 16)],
        ["The last rows are computed: the books' sizes, with 36 labels a query as in Amazon-3M."],
        key="decoding",
    )  # fmt: skip
    chart = Chart("K", "wrong labels", y_log=True, x_ticks=[(k, str(k)) for k in (1, 2, 3, 4)])
    ks = [r["num_chunks"] for r in rows]
    chart.line("expected", ks, [r["expected"] for r in rows], 1, dashed=True, dots=False)
    chart.points("measured", ks, [r["measured"] or None for r in rows], 0)
    return Finding(
        "decoding",
        "What tells the labels apart",
        "Unrelated labels share a bucket, but only true ones score high in all K chunks "
        "(appendix B).",
        "Holds, and it needs no orthogonality: the OR of a query's labels is a Bloom filter with K "
        "hashes of B places. A wrong label passes all of them with probability (r/B)^K, so that "
        "every further chunk divides the mistakes by B/r. Two or three chunks are enough for a "
        "perfect query; the others are there because the networks are not perfect.",
        [table],
        [("A perfect query's mistakes", f"N={num_labels:,}, B={buckets:,}, r={true}.", chart)],
    )


def operations(quick):
    sizes = [(5000, 500, 25)] if quick else [
        (n, b, m) for n in (50_000, 100_000, 200_000) for b in (5000, 30_000) for m in (25, 50)
    ]  # fmt: skip
    rows = [work.query_work(n, 16, b, m) for n, b, m in sizes]
    table = Table(
        "A query with K = 16 on one core",
        ["N", "B", "m", "operations (§3.3)", "with all K selections", "select ms", "rank ms",
         "ns an operation", "dense operations", "dense ms", "counted ratio", "measured ratio"],
        [[f"{r['num_labels']:,}", f"{r['num_buckets']:,}", str(r["m"]), number(r["formula"]),
          number(r["formula_all_chunks"]), f"{r['ms_select']:.3f}", f"{r['ms_rank']:.3f}",
          f"{1e6 * (r['ms_select'] + r['ms_rank']) / r['formula_all_chunks']:.2f}",
          number(r["dense"]), f"{r['ms_dense']:.2f}", number(r["dense"] / r["formula"]),
          number(r["ms_dense"] / (r["ms_select"] + r["ms_rank"]))] for r in rows],
        ["Random probabilities and buckets; the forward pass is not counted, as in the paper. "
         "Dense: a float32 product in batches of 16 and the best five, d = mK, one core."],
        key="operations",
    )  # fmt: skip
    chart = Chart("operations (§3.3, all selections)", "ms a query", x_log=True, y_log=True)
    for i, m in enumerate(sorted({r["m"] for r in rows})):
        mine = sorted((r for r in rows if r["m"] == m), key=lambda r: r["formula_all_chunks"])
        chart.line(f"SOLAR, m={m}", [r["formula_all_chunks"] for r in mine],
                   [r["ms_select"] + r["ms_rank"] for r in mine], i)  # fmt: skip
        chart.line(f"dense, d={16 * m}", [r["dense"] for r in mine],
                   [r["ms_dense"] for r in mine], i + 2, dashed=True)  # fmt: skip
    return Finding(
        "operations",
        "The operation count against the clock (§3.3)",
        "A query takes B log m + KmN/B + KmN/B log 5 operations, a dense model NmK + N log 5; "
        "SOLAR is B / (1 + log 5) times faster on paper, about 5 times in practice.",
        "The count leaves out K - 1 of the K selections (each chunk selects), which dominate while "
        "N is below a million or so; with them, time goes with operations within a factor of "
        "three. A dense product spends far less time on an operation, so the measured ratio is a "
        "small part of the counted one. Two things favour SOLAR in it. The dense model has d = mK, "
        "which nobody needs: with d = 100 it is mK/100 times cheaper. And the forward pass is left "
        "out: at the books' sizes its output layers alone are K x 4096 x B = 2.0 billion "
        "multiply-adds a query, more than the NmK = 1.3 billion of the dense product with m = 50.",
        [table],
        [("Time against operations", "Both axes logarithmic; one core.", chart)],
    )


def memory(quick):
    rows = [work.memory(n) for n in (670_091, BOOKS, 10_000_000, 100_000_000)]
    table = Table(
        "Labels, networks and dense vectors; the books' network, d = 1000",
        ["labels", "SOLAR: bytes a label", "dense: bytes a label", "SOLAR: labels",
         "SOLAR: networks", "SOLAR: both", "dense", "dense / both"],
        [[f"{r['num_labels']:,}", f"{r['label_bytes']:,}", f"{r['dense_label_bytes']:,}",
          size(r["index_bytes"]), size(r["network_bytes"]),
          size(r["index_bytes"] + r["network_bytes"]), size(r["dense_bytes"]),
          f"{r['dense_bytes'] / (r['index_bytes'] + r['network_bytes']):.2f}"] for r in rows],
        key="memory",
    )  # fmt: skip
    chart = Chart("labels", "GB", x_log=True, y_log=True)
    xs = [10**p for p in (5, 6, 7, 8)]
    found = [work.memory(n) for n in xs]
    chart.line("SOLAR: labels", xs, [r["index_bytes"] / 1e9 for r in found], 0)
    both = [(r["index_bytes"] + r["network_bytes"]) / 1e9 for r in found]
    chart.line("SOLAR: labels and networks", xs, both, 1)
    chart.line("dense, d=1000", xs, [r["dense_bytes"] / 1e9 for r in found], 2)
    even = rows[0]["break_even"]
    return Finding(
        "memory",
        "Memory of a label against dense embeddings (§5.2)",
        "SOLAR stores 16 integers a label, where a dense embedding of 1000 dimensions takes 4,000 "
        "bytes.",
        f"Holds for the labels: {4000 / 64:.1f} times less. But the K networks are part of the "
        f"model: {size(rows[0]['network_bytes'])} with the books' settings, whatever the number of "
        f"labels. Counted with them, SOLAR is the smaller one from {even / 1e6:.1f} million labels "
        "on. (A dense model has a network, too: DSSM's 763,265 x 1600 word vectors are 4.9 GB.) "
        "The networks need not be in memory at once: chunk after chunk will do for batches.",
        [table],
        [("Memory by number of labels", "Both axes logarithmic.", chart)],
    )


def as_page(findings):
    on = machine()
    sections = []
    for f in findings:
        text = paragraph(f"The paper: {f.claim}", "soft") + paragraph(f"Here: {f.answer}")
        charts = grid(*(figure(*chart) for chart in f.charts)) if f.charts else ""
        sections.append((f.key, f.title, text + charts + titled(*f.tables)))
    footer = f"Made by solar theory on {on['date']}, commit {on['commit'] or 'unknown'}."
    return page("SOLAR's theory, by numbers", "Claims of the paper and checks.", sections, footer)


def as_markdown(findings):
    on = machine()
    parts = [
        "# The theory, by numbers",
        "Written by `solar theory --markdown docs/theory.md`, which also makes a page "
        f"with charts. Measured on {on['cpu']}, one core, commit {on['commit']}, {on['date']}.",
    ]
    for f in findings:
        parts += [f"## {f.title}", f"*The paper:* {f.claim}", f.answer]
        parts += [table.markdown(3).strip() for table in f.tables]
    return "\n\n".join(parts) + "\n"
