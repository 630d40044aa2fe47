"""Label vectors in Qdrant: a folder for its in-process engine, or a collection of a server.

The folder is a shard of qdrant-edge (extra `qdrant`). A server gets the same points by its REST
interface.
"""

import json
import urllib.error
import urllib.request
from pathlib import Path

from solar_tf.errors import UserError
from solar_tf.export.vectors import best_first

NAME = "solar"  # of the vector of a point


def open_engine(out, collection):
    """The engine in a folder, or at a server's address."""
    return Server(out, collection) if "://" in out else Edge(out)


class Edge:
    """A shard of qdrant-edge in a folder."""

    def __init__(self, folder):
        try:
            import qdrant_edge
        except ImportError:
            raise UserError("qdrant needs qdrant-edge-py: pip install solar-tf[qdrant]")
        self.engine, self.folder, self.shard = qdrant_edge, Path(folder), None

    def write(self, vectors):
        """Write all labels; the folder must be new."""
        if self.folder.exists() and any(self.folder.iterdir()):
            raise UserError(f"{self.folder}: is not empty: choose a new folder")
        self.folder.mkdir(parents=True, exist_ok=True)
        engine = self.engine
        config = engine.EdgeConfig(sparse_vectors={NAME: engine.EdgeSparseVectorParams()})
        self.shard = engine.EdgeShard.create(str(self.folder), config)
        ones = [1.0] * vectors.indices.shape[1]
        for labels, indices, titles in vectors.batches():
            points = [
                engine.Point(
                    label,
                    {NAME: engine.SparseVector(row, ones)},
                    {"title": title} if title is not None else None,
                )
                for label, row, title in zip(labels, indices.tolist(), titles, strict=True)
            ]
            self.shard.update(engine.UpdateOperation.upsert_points(points))
        self.shard.optimize()
        self.shard.flush()

    def search(self, indices, weights, k):
        """The best labels of a query vector: a list of (label, score)."""
        engine = self.engine
        if self.shard is None:
            if not self.folder.exists():
                raise UserError(f"{self.folder}: no such folder: export the run there first")
            self.shard = engine.EdgeShard.load(str(self.folder))
        vector = engine.SparseVector(indices.tolist(), weights.tolist())
        request = engine.QueryRequest(limit=k, query=engine.Query.Nearest(vector, using=NAME))
        return best_first((point.id, point.score) for point in self.shard.query(request))

    def close(self):
        if self.shard is not None:
            self.shard.close()
            self.shard = None


class Server:
    """A collection of a Qdrant server."""

    def __init__(self, address, collection):
        self.address = f"{address.rstrip('/')}/collections/{collection}"

    def write(self, vectors):
        """Create the collection, which must be new, and write all labels."""
        self._ask("PUT", "", {"sparse_vectors": {NAME: {}}})
        for batch in vectors.batches():
            self._ask("PUT", "/points?wait=true", {"points": points(*batch)})

    def search(self, indices, weights, k):
        """The best labels of a query vector: a list of (label, score)."""
        vector = {"indices": indices.tolist(), "values": weights.tolist()}
        body = {"query": vector, "using": NAME, "limit": k}
        found = self._ask("POST", "/points/query", body)["result"]["points"]
        return best_first((point["id"], point["score"]) for point in found)

    def close(self):
        pass

    def _ask(self, method, path, body):
        return ask(method, self.address + path, json.dumps(body).encode())


def points(labels, indices, titles):
    """A batch of labels as the points of Qdrant's REST interface."""
    ones = [1.0] * indices.shape[1]
    return [
        {
            "id": label,
            "vector": {NAME: {"indices": row, "values": ones}},
            **({"payload": {"title": title}} if title is not None else {}),
        }
        for label, row, title in zip(labels, indices.tolist(), titles, strict=True)
    ]


def ask(method, address, body, kind="application/json"):
    """The JSON answer of a server; UserError if it refuses."""
    request = urllib.request.Request(address, body, {"Content-Type": kind}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        reason = error.read(500).decode(errors="replace")
        raise UserError(f"{address}: the server says {error.code}: {reason}")
    except OSError as error:
        raise UserError(f"{address}: {error}: see that the server runs there")
