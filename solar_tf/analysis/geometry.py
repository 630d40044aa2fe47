"""Load and geometry of a run's label vectors, beside what the paper derives (§3.1, §3.3)."""

import itertools
import math

import numpy as np

from solar_tf.analysis.results import top_buckets
from solar_tf.analysis.tables import Table
from solar_tf.run.files import read_json
from solar_tf.run.index import load_balance, load_index
from solar_tf.runtime.console import size

PAIRS = 1_000_000  # sampled for the overlap
TOP_BUCKETS = (100, 50, 25)  # m, where infer.py has not run
DENSE_DIM = 1000  # of the embedding that the paper compares with (§5.2)
TOP_LABELS = 5  # of the paper's operation count (§3.3)
BINS, BAR = 20, 50  # of the histogram: rows, and characters of the longest bar


def measure(run, pairs=PAIRS, seed=0):
    """All facts of a run (a run.directory.Run) as plain numbers, for `render` and for reports."""
    num_labels, config = run.dataset["num_labels"], run.config
    num_chunks, num_buckets = config.num_chunks, config.num_buckets
    queries = _queries(run)
    postings = {row["m"]: [0, 0] for row in queries}  # labels in the hit buckets, queries
    first, second = _sample_pairs(num_labels, pairs, seed)
    overlap = np.zeros(len(first), np.int64)
    sizes, balances, index_bytes = [], [], 0
    for chunk in range(num_chunks):
        index = load_index(run.paths.index(chunk), num_buckets, num_labels)
        sizes.append(np.diff(index.offsets.astype(np.int64)))
        balances.append(load_balance(index))
        buckets = index.label_buckets()
        overlap += buckets[first] == buckets[second]
        index_bytes += run.paths.index(chunk).stat().st_size
        _add_postings(run, chunk, sizes[-1], postings)
    for row in queries:
        hits, count = postings[row["m"]]
        row["postings"] = hits / count * num_chunks if count else None
        row |= operations(num_labels, num_chunks, num_buckets, row["m"], row)
    return {
        "dataset": run.dataset["name"],
        "num_labels": num_labels,
        "num_chunks": num_chunks,
        "num_buckets": num_buckets,
        "load": _load(balances, np.concatenate(sizes), num_labels, num_buckets),
        "overlap": _overlap(overlap, num_chunks, num_buckets),
        "memory": {
            "index_bytes": index_bytes,
            "index_bytes_per_label": index_bytes / num_labels,
            "paper_bytes_per_label": 4 * num_chunks,  # "only 16 integers per label" (§5.2)
            "dense_dim": DENSE_DIM,
            "dense_bytes_per_label": 4 * DENSE_DIM,
        },
        "queries": queries,
    }


def operations(num_labels, num_chunks, num_buckets, m, measured):
    """Operations of a query by the paper's formula (§3.3), and with the measured candidates.

    B log m + KmN/B + KmN/B log 5, against NmK + N log 5 of a dense model of dimension mK; the
    logarithms are binary. `measured` has "postings" and "candidates", or None for them.
    """
    worst, log_top = num_chunks * m * num_labels / num_buckets, math.log2(TOP_LABELS)
    select = num_buckets * math.log2(m)
    dense = num_labels * m * num_chunks + num_labels * log_top
    formula = select + worst * (1 + log_top)
    found = None
    if measured["postings"] is not None and measured["candidates"] is not None:
        found = select + measured["postings"] + measured["candidates"] * log_top
    return {
        "worst_candidates": worst,  # K m N / B: no label is met twice
        # A label is missed by a chunk with probability 1 - m/B, if queries hit at random.
        "random_candidates": num_labels * (1 - (1 - m / num_buckets) ** num_chunks),
        "formula_operations": formula,
        "measured_operations": found,
        "dense_operations": dense,
    }


def _queries(run):
    """m and the candidates of a query of every row of metrics.json that is shortlisted."""
    result = read_json(run.paths.metrics())
    found = {}
    for row in result["rows"] if result else ():
        if row["setting"].startswith("m="):
            found[int(row["setting"][2:])] = row["candidates"]
    most = run.config.num_buckets
    ms = found or {m: None for m in TOP_BUCKETS if m <= most} or {most: None}
    return [{"m": m, "candidates": ms[m]} for m in sorted(ms, reverse=True)]


def _add_postings(run, chunk, sizes, postings):
    """Add up the labels in the buckets that infer.py's test queries hit, where it left them."""
    for block in top_buckets(run, chunk):
        buckets = block["buckets"]
        for m, sums in postings.items():
            if m <= buckets.shape[1]:
                sums[0] += int(sizes[buckets[:, :m]].sum())
                sums[1] += len(buckets)


def _sample_pairs(num_labels, pairs, seed):
    """Pairs of different labels, at random: two int64 arrays."""
    generator = np.random.default_rng(seed)
    first = generator.integers(num_labels, size=pairs if num_labels > 1 else 0)
    others = generator.integers(max(num_labels - 1, 1), size=len(first))
    return first, (first + 1 + others) % num_labels


def _load(balances, sizes, num_labels, num_buckets):
    from scipy.stats import binom

    over_chunks = {"min": min, "max": max, "mean": np.mean, "std": np.mean, "p99": np.mean}
    width = -(-(np.ptp(sizes) + 1) // BINS)
    edges = np.arange(sizes.min(), sizes.max() + width + 1, width)
    expected = np.diff(binom(num_labels, 1 / num_buckets).cdf(edges - 1)) * len(sizes)
    return {
        "measured": {
            name: float(pick([balance["measured"][name] for balance in balances]))
            for name, pick in over_chunks.items()
        },
        "binomial": balances[0]["binomial"],
        "histogram": {
            "edges": edges.tolist(),
            "measured": np.histogram(sizes, edges)[0].tolist(),
            "binomial": expected.tolist(),
        },
    }


def _overlap(overlap, num_chunks, num_buckets):
    """Dot products of pairs of label vectors: Binomial(K, 1/B) if they are random (§3.1)."""
    from scipy.stats import binom

    expected = binom(num_chunks, 1 / num_buckets)
    counts = np.bincount(overlap)
    pairs = max(len(overlap), 1)
    return {
        "pairs": len(overlap),
        "expected_mean": num_chunks / num_buckets,
        "measured_mean": float(overlap.mean()) if len(overlap) else None,
        "standard_error": float(expected.std() / math.sqrt(pairs)),
        "measured": counts.tolist(),
        "binomial": (expected.pmf(np.arange(max(len(counts), 2))) * len(overlap)).tolist(),
    }


def render(facts):
    """The facts of `measure` as text for people."""
    title = "{dataset}: N={num_labels:,}, K={num_chunks}, B={num_buckets:,}".format(**facts)
    load, *others = (table.text() for table in tables(facts))
    return "\n\n".join([title, load, _draw_histogram(facts["load"]["histogram"]), *others])


def tables(facts):
    """Tables of the load, the overlap, the memory and the work of a query."""
    return [_load_table(facts), _overlap_table(facts), _memory_table(facts), _work_table(facts)]


def _load_table(facts):
    names = ("min", "p99", "max", "mean", "std")
    rows = [
        [kind, *(f"{facts['load'][kind][name]:,.1f}" for name in names)]
        for kind in ("measured", "binomial")
    ]
    return Table("Load: labels in a bucket (§3.1), of all chunks", ["", *names], rows)


def span(low, high):
    """The whole numbers from `low` to below `high`, as text."""
    if high == low + 1:
        return f"{low:,}"
    return f"{low:,}-{high - 1:,}" if high < math.inf else f"{low:,}+"


def bins(histogram):
    """(sizes, buckets found, buckets expected) of each bin, sizes being text such as `3-4`."""
    for low, high, found, expected in zip(
        histogram["edges"], histogram["edges"][1:], histogram["measured"], histogram["binomial"],
        strict=False,
    ):  # fmt: skip
        yield span(low, high), found, expected


def _draw_histogram(histogram):
    """A bar of # per range of sizes; | is where it would end by the binomial distribution."""
    most = max(*histogram["measured"], *histogram["binomial"], 1)
    lines = []
    for name, found, expected in bins(histogram):
        bar = list(("#" * round(BAR * found / most)).ljust(BAR + 1))
        bar[round(BAR * expected / most)] = "|"
        lines.append(f"{name:>15} {''.join(bar)} {found:,}")
    return "\n".join([*lines, f"{'':>15} # buckets of that size, | by the binomial distribution"])


def _overlap_table(facts):
    overlap = facts["overlap"]
    title = "Geometry: chunks in which two labels share a bucket"
    header = [f"{overlap['pairs']:,} random pairs", "measured", "binomial(K, 1/B)"]
    if not overlap["pairs"]:
        return Table(title, header, [], ["One label has no pairs."])
    measured, expected = overlap["measured_mean"], overlap["expected_mean"]
    rows = [["mean dot product", f"{measured:.6f}", f"{expected:.6f} (K/B)"]]
    counted = itertools.zip_longest(overlap["measured"], overlap["binomial"], fillvalue=0)
    rows += [
        [f"pairs that share {count}", f"{found:,}", f"{pairs:,.1f}"]
        for count, (found, pairs) in enumerate(counted)
    ]
    away = abs(measured - expected) / overlap["standard_error"]
    return Table(title, header, rows, [f"The mean is {away:.1f} standard errors from K/B."])


def _memory_table(facts):
    memory, num_chunks = facts["memory"], facts["num_chunks"]
    dense = memory["dense_bytes_per_label"]
    rows = [
        [name, f"{each:,.1f}", size(each * facts["num_labels"]), f"{dense / each:,.1f}"]
        for name, each in (
            (f"this run's {num_chunks} index files", memory["index_bytes_per_label"]),
            (f"{num_chunks} integers (the paper)", memory["paper_bytes_per_label"]),
            (f"a dense float32 embedding, d={memory['dense_dim']:,}", dense),
        )
    ]
    header = ["", "bytes a label", "all labels", "times smaller than dense"]
    return Table("Memory of the labels (§5.2)", header, rows)


def _work_table(facts):
    columns = {
        "KmN/B": "worst_candidates",
        "labels met": "postings",
        "distinct if random": "random_candidates",
        "candidates": "candidates",
        "operations (paper)": "formula_operations",
        "measured": "measured_operations",
        "dense, d=mK": "dense_operations",
    }
    rows = [
        [
            f"m={row['m']}",
            *("-" if row[name] is None else f"{row[name]:,.0f}" for name in columns.values()),
            f"{row['dense_operations'] / row['formula_operations']:,.0f}",
        ]
        for row in facts["queries"]
    ]
    bound = facts["num_buckets"] / (1 + math.log2(TOP_LABELS))
    notes = [
        "KmN/B counts a label once for every bucket that it is met in, as `labels met` does; "
        "`candidates` are\ndistinct. The paper's formula is B log m + KmN/B (1 + log 5), of one "
        "chunk's selection and all lookups;\nwithout the selection, dense models would take "
        f"B / (1 + log 5) = {bound:,.0f} times as many."
    ]
    if facts["queries"][0]["candidates"] is None:
        notes.append("Measured figures need infer.py's results.")
    header = ["", *columns, "dense / paper"]
    return Table("Work of a query (§3.3), by m", header, rows, notes)
