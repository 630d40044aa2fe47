"""The engines for sparse vectors as targets: write the labels of a run, or search them."""

from solar_tf.export import lucene, milvus, qdrant
from solar_tf.export.vectors import LabelVectors, QueryVectors
from solar_tf.retrieval.ranking import EVIDENCE_FLOOR, SCORES
from solar_tf.runtime.console import say, table

HELP = {
    "qdrant": "a folder of qdrant-edge, or a Qdrant server",
    "milvus": "a Milvus server",
    "elasticsearch": "bulk files, or an Elasticsearch server",
    "opensearch": "bulk files, or an OpenSearch server",
}
ENGINES = {
    "qdrant": qdrant.open_engine,
    "milvus": milvus.open_engine,
    "elasticsearch": lucene.Elasticsearch,
    "opensearch": lucene.OpenSearch,
}


def add_arguments(parser):
    """The arguments of all engines."""
    parser.add_argument("run", metavar="RUN", help="the run directory")
    parser.add_argument("out", metavar="OUT", help="a folder, or the address of a server")
    parser.add_argument("--name", default="solar", help="of the collection or index [solar]")
    parser.add_argument("--num_chunks", type=int, help="the first chunks only [all]")
    query = parser.add_argument_group("searching")
    query.add_argument("--query", help="a text to answer from OUT, instead of writing it")
    query.add_argument("--top_buckets", type=int, default=100, help="m [100]")
    query.add_argument("--top_labels", type=int, default=10, help="labels to show [10]")
    query.add_argument("--score", choices=SCORES, default="evidence", help="[evidence]")
    query.add_argument("--evidence_floor", type=float, default=EVIDENCE_FLOOR, help="[1e-4]")


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
