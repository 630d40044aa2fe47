"""The engines for sparse vectors as targets: write the labels of a run, or search them."""

from solar_tf.export import lucene, milvus, qdrant
from solar_tf.export.vectors import LabelVectors, QueryVectors
from solar_tf.retrieval.ranking import EVIDENCE_FLOOR
from solar_tf.runtime.console import say, table

ENGINES = {
    "qdrant": qdrant.open_engine,
    "milvus": milvus.open_engine,
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
    engine = ENGINES[target](out, name)
    try:
        if query is not None:
            queries = QueryVectors(run, num_chunks, top_buckets, score, evidence_floor)
            found = engine.search(*queries.encode(query), top_labels)
            title = queries.searcher.title
            rows = [
                (i, label, title(label) or "-", f"{value:.3f}")
                for i, (label, value) in enumerate(found, 1)
            ]
            say(table(("", "label", f"title, for {query!r}", "score"), rows))
            return found
        vectors = LabelVectors(run, num_chunks)
        engine.write(vectors)
        say(
            f"{vectors.num_labels:,} labels of {len(vectors.chunks)} ones in {vectors.dim:,} "
            f"dimensions: {target}, {out}"
        )
        return None
    finally:
        engine.close()
