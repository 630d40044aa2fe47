"""Label vectors in a collection of a Milvus server (extra `milvus`), searched exactly.

Exact means ranking by inner product, with no small weights of queries dropped
(`drop_ratio_search` 0, the default).
"""

from solar_tf.errors import UserError
from solar_tf.export.vectors import best_first

TITLE_BYTES = 1000  # of a title that are stored
SEARCH = {"metric_type": "IP", "params": {"drop_ratio_search": 0.0}}


class Milvus:
    """A collection of the Milvus server at an address."""

    def __init__(self, address, collection):
        if "://" not in address:
            raise UserError(
                f"{address}: give the address of a Milvus server, such as http://127.0.0.1:19530"
            )
        try:
            import pymilvus
        except ImportError:
            raise UserError("milvus needs pymilvus: pip install solar-tf[milvus]")
        self.milvus, self.collection = pymilvus, collection
        try:
            self.client = pymilvus.MilvusClient(uri=address, timeout=30)
        except pymilvus.MilvusException as error:
            raise UserError(f"{address}: {error.message}: see that the server runs there")

    def write(self, vectors):
        """Create the collection, which must be new, and write all labels."""
        kind, client = self.milvus.DataType, self.client
        if client.has_collection(self.collection):
            raise UserError(f"collection {self.collection} exists already: choose another --name")
        schema = client.create_schema(auto_id=False)
        schema.add_field("label", kind.INT64, is_primary=True)
        schema.add_field("vector", kind.SPARSE_FLOAT_VECTOR)
        if vectors.titles:
            schema.add_field("title", kind.VARCHAR, max_length=TITLE_BYTES)
        index = client.prepare_index_params()
        index.add_index("vector", index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
        client.create_collection(self.collection, schema=schema, index_params=index)
        for labels, indices, titles in vectors.batches():
            rows = [
                {"label": label, "vector": dict.fromkeys(row, 1.0)}
                for label, row in zip(labels, indices.tolist(), strict=True)
            ]
            if vectors.titles:
                for row, title in zip(rows, titles, strict=True):
                    row["title"] = title.encode()[:TITLE_BYTES].decode(errors="ignore")
            client.insert(self.collection, rows)
        client.flush(self.collection)

    def search(self, indices, weights, k):
        """The best labels of a query vector: a list of (label, score)."""
        self.client.load_collection(self.collection)
        vector = dict(zip(indices.tolist(), weights.tolist(), strict=True))
        found = self.client.search(
            self.collection, [vector], limit=k, anns_field="vector", search_params=SEARCH
        )[0]
        return best_first((hit["label"], hit["distance"]) for hit in found)

    def close(self):
        self.client.close()
