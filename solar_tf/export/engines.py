"""Search engines for sparse vectors: write the labels of a run to one, or search them there."""

import contextlib

from solar_tf.export import lucene, milvus, qdrant
from solar_tf.export.vectors import LabelVectors, QueryVectors
from solar_tf.retrieval.ranking import EVIDENCE_FLOOR
from solar_tf.runtime.console import say, table

ENGINES = {
    "qdrant": qdrant.open_engine,
    "milvus": milvus.Milvus,
    "elasticsearch": lucene.Elasticsearch,
    "opensearch": lucene.OpenSearch,
}


def export(
    target,
    run,
    out,
    name="solar",
    num_chunks=None,
    query=None,
    top_buckets=100,
    top_labels=10,
    score="evidence",
    evidence_floor=EVIDENCE_FLOOR,
):
    """Write a run's labels to an engine, or print what it finds there for a text."""
    with contextlib.closing(ENGINES[target](out, name)) as engine:
        if query is None:
            vectors = LabelVectors(run, num_chunks)
            engine.write(vectors)
            say(
                f"{vectors.num_labels:,} labels of {len(vectors.chunks)} ones in {vectors.dim:,} "
                f"dimensions: {target}, {out}"
            )
            return
        queries = QueryVectors(run, num_chunks, top_buckets, score, evidence_floor)
        title = queries.searcher.title
        rows = [
            (i, label, title(label) or "-", f"{value:.3f}")
            for i, (label, value) in enumerate(engine.search(*queries.encode(query), top_labels), 1)
        ]
        say(table(("", "label", f"title, for {query!r}", "score"), rows))
