"""Label vectors for Elasticsearch and OpenSearch: an index's mapping and bulk files.

They go to a folder, for `curl`, or to a server. Both engines store weights with nine significant
bits, which is exact for the ones of label vectors; query weights are whole float32. The engines'
limits are checked here, so that the error says what to do.
"""

import json
from pathlib import Path

import numpy as np

from solar_tf.errors import UserError
from solar_tf.export.qdrant import ask
from solar_tf.export.vectors import best_first
from solar_tf.run.files import atomic_write
from solar_tf.runtime.console import say

FIELD = "vector"
BULK_BYTES = 10_000_000  # of a bulk request; servers take 100 MB at most
MOST_WEIGHT = 64.0  # of a term in Lucene's linear feature query
MOST_RESULTS = 10_000  # index.max_result_window
MOST_CLAUSES = 1024  # OpenSearch: indices.query.bool.max_clause_count


class Elasticsearch:
    """8.15 or newer: a sparse_vector field."""

    kind = "sparse_vector"

    def __init__(self, out, collection):
        self.out, self.collection = out, collection

    def mapping(self, has_titles):
        """The body of the request that makes the index."""
        properties = {"label": {"type": "integer"}, FIELD: {"type": self.kind}}
        if has_titles:
            properties["title"] = {"type": "text"}
        return {"mappings": {"dynamic": "strict", "properties": properties}}

    def query(self, tokens):
        # Pruning would leave out tokens, and change the scores.
        return {"sparse_vector": {"field": FIELD, "query_vector": tokens, "prune": False}}

    def request(self, indices, weights, k):
        """The body of a search request for a query vector."""
        if not len(weights):
            raise UserError("a query of no buckets: its probabilities are all under the floor")
        if k > MOST_RESULTS:
            raise UserError(f"{k} labels: the engine returns {MOST_RESULTS:,} at most")
        if weights.max() > MOST_WEIGHT:
            raise UserError(
                f"a weight of {weights.max():.3g}, where Lucene takes {MOST_WEIGHT:g} at most: "
                "use a higher --evidence_floor"
            )
        # str gives as many digits as a float32 has.
        tokens = {str(i): float(str(w)) for i, w in zip(indices.tolist(), weights, strict=True)}
        body = {"size": k, "_source": ["label", "title"], "query": self.query(tokens)}
        return body | {"sort": [{"_score": "desc"}, {"label": "asc"}], "track_scores": True}

    def write(self, vectors):
        """Write mapping.json and bulk_00000.ndjson ... to a folder, or send them to a server."""
        mapping = self.mapping(bool(vectors.titles))
        if "://" in self.out:
            address = f"{self.out.rstrip('/')}/{self.collection}"
            ask("PUT", address, json.dumps(mapping).encode())
            for part in bulk_parts(vectors):
                answer = ask("POST", f"{address}/_bulk", part, "application/x-ndjson")
                if answer.get("errors"):
                    failed = next(
                        item["index"] for item in answer["items"] if item["index"].get("error")
                    )
                    raise UserError(f"{address}: label {failed['_id']}: {failed['error']}")
            return
        folder = Path(self.out)
        if folder.exists() and any(folder.iterdir()):
            raise UserError(f"{folder}: is not empty: choose a new folder")
        for number, part in enumerate(bulk_parts(vectors)):
            with atomic_write(folder / f"bulk_{number:05d}.ndjson") as file:
                file.write(part)
        with atomic_write(folder / "mapping.json", "w") as file:
            json.dump(mapping, file, indent=2)
        index, kind = f"$SERVER/{self.collection}", "-H Content-Type:application"
        say(
            f"Send it:\n  curl -X PUT {index} {kind}/json -d @{folder}/mapping.json\n"
            f"  for part in {folder}/bulk_*.ndjson; do "
            f"curl -X POST {index}/_bulk {kind}/x-ndjson --data-binary @$part; done"
        )

    def search(self, indices, weights, k):
        """The best labels of a query vector: a list of (label, score)."""
        body = json.dumps(self.request(indices, weights, k))
        if "://" not in self.out:
            raise UserError(f"{self.out}: a folder cannot be searched: send this request:\n{body}")
        address = f"{self.out.rstrip('/')}/{self.collection}/_search"
        hits = ask("POST", address, body.encode())["hits"]["hits"]
        return best_first((hit["_source"]["label"], hit["_score"]) for hit in hits)

    def close(self):
        pass


class OpenSearch(Elasticsearch):
    """2.14 or newer: a rank_features field, searched by the neural_sparse query."""

    kind = "rank_features"

    def query(self, tokens):
        if len(tokens) > MOST_CLAUSES:
            raise UserError(
                f"{len(tokens)} buckets of a query, where OpenSearch takes {MOST_CLAUSES} by "
                f"default: use a smaller --top_buckets, m * K up to {MOST_CLAUSES}, or raise "
                "indices.query.bool.max_clause_count there"
            )
        return {"neural_sparse": {FIELD: {"query_tokens": tokens}}}


def bulk_parts(vectors):
    """The labels as bodies of bulk requests, of about BULK_BYTES each."""
    parts, size = [], 0
    for labels, indices, titles in vectors.batches():
        part = bulk_lines(labels, indices, titles if vectors.titles else None)
        if parts and size + len(part) > BULK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
        parts.append(part)
        size += len(part)
    if parts:
        yield b"".join(parts)


def bulk_lines(labels, indices, titles):
    """Two lines for each label, the action and the document; one format call makes all of them."""
    num_labels, num_chunks = indices.shape
    vector = ",".join(['"%d":1'] * num_chunks)
    title = "" if titles is None else ',"title":%s'
    line = '{"index":{"_id":"%d"}}\n{"label":%d' + title + ',"' + FIELD + '":{' + vector + "}}\n"
    columns = [np.array([labels, labels]).T.astype(object)]
    if titles is not None:
        columns.append(np.array([*map(json.dumps, titles)], object)[:, None])
    values = np.hstack([*columns, indices.astype(object)])
    return (line * num_labels % tuple(values.ravel())).encode()
