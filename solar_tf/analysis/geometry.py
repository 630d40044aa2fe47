"""Load and geometry of a run's label vectors, beside what the paper derives (§3.1, §3.3)."""

import math

import numpy as np

from solar_tf.run.directory import read_arrays, read_json
from solar_tf.run.index import load_balance, load_index
from solar_tf.runtime.console import size, table

PAIRS = 1_000_000  # sampled for the overlap
TOP_BUCKETS = (100, 50, 25)  # m, where infer.py has not run
DENSE_DIM = 1000  # of the embedding that the paper compares with (§5.2)
TOP_LABELS = 5  # of the paper's operation count (§3.3)
BINS, BAR = 20, 50  # of the histogram: rows, and characters of the longest bar


def measure(run, pairs=PAIRS, seed=0):
    """All facts of a run (a rundir.Run) as plain numbers, for `render` and for reports."""
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
    block = 0
    while (path := run.paths.topm(block, chunk)).exists():
        buckets = read_arrays(path, "infer.py")["buckets"]
        for m, sums in postings.items():
            if m <= buckets.shape[1]:
                sums[0] += int(sizes[buckets[:, :m]].sum())
                sums[1] += len(buckets)
        block += 1


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
    sizes = "N={num_labels:,}, K={num_chunks}, B={num_buckets:,}".format(**facts)
    parts = [f"{facts['dataset']}: {sizes}"]
    parts += ["Load: labels in a bucket (§3.1), of all chunks", _render_load(facts["load"])]
    parts += [_render_histogram(facts["load"]["histogram"])]
    parts += ["Geometry: chunks in which two labels share a bucket", _render_overlap(facts)]
    parts += ["Memory of the labels (§5.2)", _render_memory(facts)]
    parts += ["Work of a query (§3.3), by m", _render_queries(facts)]
    return "\n\n".join(parts)


def _render_load(load):
    names = ("min", "p99", "max", "mean", "std")
    rows = [(kind, *(f"{load[kind][name]:,.1f}" for name in names))
            for kind in ("measured", "binomial")]  # fmt: skip
    return table(("", *names), rows)


def _render_histogram(histogram):
    """A bar of # per range of sizes; | is where it would end by the binomial distribution."""
    edges, most = histogram["edges"], max(*histogram["measured"], *histogram["binomial"], 1)
    lines = []
    for low, high, found, expected in zip(
        edges, edges[1:], histogram["measured"], histogram["binomial"], strict=False
    ):
        bar = list(("#" * round(BAR * found / most)).ljust(BAR + 1))
        bar[round(BAR * expected / most)] = "|"
        name = f"{low:,}" if high == low + 1 else f"{low:,}-{high - 1:,}"
        lines.append(f"{name:>15} {''.join(bar)} {found:,}")
    return "\n".join([*lines, f"{'':>15} # buckets of that size, | by the binomial distribution"])


def _render_overlap(facts):
    overlap = facts["overlap"]
    if not overlap["pairs"]:
        return "(one label has no pairs)"
    rows = [
        (f"pairs that share {count}", f"{found:,}", f"{expected:,.1f}")
        for count, (found, expected) in enumerate(
            zip(_padded(overlap["measured"], 2), overlap["binomial"], strict=False)
        )
    ]
    error = overlap["standard_error"]
    away = abs(overlap["measured_mean"] - overlap["expected_mean"]) / error
    mean = (f"{overlap['measured_mean']:.6f}", f"{overlap['expected_mean']:.6f} (K/B)")
    rows.insert(0, ("mean dot product", *mean))
    header = (f"{overlap['pairs']:,} random pairs", "measured", "binomial(K, 1/B)")
    return f"{table(header, rows)}\n\nThe mean is {away:.1f} standard errors from K/B."


def _padded(values, length):
    return [*values, *[0] * (length - len(values))]


def _render_memory(facts):
    memory = facts["memory"]
    dense = memory["dense_bytes_per_label"]
    rows = [
        (name, f"{each:,.1f}", size(each * facts["num_labels"]), f"{dense / each:,.1f}")
        for name, each in (
            (f"this run's {facts['num_chunks']} index files", memory["index_bytes_per_label"]),
            (f"{facts['num_chunks']} integers (the paper)", memory["paper_bytes_per_label"]),
            (f"a dense float32 embedding, d={memory['dense_dim']:,}", dense),
        )
    ]
    return table(("", "bytes a label", "all labels", "times smaller than dense"), rows)


def _render_queries(facts):
    rows = [
        (
            f"m={row['m']}",
            _number(row["worst_candidates"]),
            _number(row["postings"]),
            _number(row["random_candidates"]),
            _number(row["candidates"]),
            _number(row["formula_operations"]),
            _number(row["measured_operations"]),
            _number(row["dense_operations"]),
            f"{row['dense_operations'] / row['formula_operations']:,.0f}",
        )
        for row in facts["queries"]
    ]
    header = (
        *("", "KmN/B", "labels met", "distinct if random", "candidates"),
        *("operations (paper)", "measured", "dense, d=mK", "dense / paper"),
    )
    bound = facts["num_buckets"] / (1 + math.log2(TOP_LABELS))
    notes = (
        "KmN/B counts a label once for every bucket that it is met in, as `labels met` does; "
        "`candidates` are\ndistinct. The paper's formula is B log m + KmN/B (1 + log 5), of one "
        "chunk's selection and all lookups;\nwithout the selection, dense models would take "
        f"B / (1 + log 5) = {bound:,.0f} times as many."
    )
    if facts["queries"][0]["candidates"] is None:
        notes += "\nMeasured figures need infer.py's results."
    return f"{table(header, rows)}\n\n{notes}"


def _number(value):
    return "-" if value is None else f"{value:,.0f}"
