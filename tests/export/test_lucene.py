"""Elasticsearch and OpenSearch do not run here: their formats and limits, by their documents."""

import contextlib
import http.server
import json
import threading

import numpy as np
import pytest

from solar_tf.errors import UserError
from solar_tf.export import lucene
from solar_tf.export.engines import export
from solar_tf.export.vectors import LabelVectors, QueryVectors


@pytest.mark.parametrize(
    ("target", "kind"), [("elasticsearch", "sparse_vector"), ("opensearch", "rank_features")]
)
def test_files_have_a_mapping_and_an_action_and_a_document_for_every_label(
    preprocessed, tmp_path, target, kind
):
    """Features keep to the documented limits: names without dots, weights of few bits above 0."""
    export(target, preprocessed.paths.root, str(tmp_path / "out"))
    parts = sorted((tmp_path / "out").glob("bulk_*.ndjson"))
    content = b"".join(part.read_bytes() for part in parts)
    assert content.endswith(b"\n")  # the last line of a bulk request must end, too
    lines = [json.loads(line) for line in content.splitlines()]
    assert lines[::2] == [{"index": {"_id": str(label)}} for label in range(40)]
    vectors = LabelVectors(preprocessed.paths.root)
    assert lines[1::2] == [
        {
            "label": label,
            "title": f"about topic{label}",
            "vector": {str(index): 1 for index in vectors.indices[label].tolist()},
        }
        for label in range(40)
    ]
    mapping = json.loads((tmp_path / "out" / "mapping.json").read_text())["mappings"]
    assert mapping["properties"]["vector"] == {"type": kind}
    assert mapping["properties"].keys() == lines[1].keys()


def test_bulk_requests_are_cut_before_they_are_too_large(preprocessed, monkeypatch):
    monkeypatch.setattr(lucene, "BULK_BYTES", 1000)
    vectors = LabelVectors(preprocessed.paths.root)
    batches = vectors.batches
    monkeypatch.setattr(vectors, "batches", lambda: batches(size=3))
    parts = list(lucene.bulk_parts(vectors))
    assert len(parts) > 3
    assert max(map(len, parts)) <= 1000
    assert b"".join(parts).count(b"\n") == 80


def test_titles_are_escaped():
    title = 'a "b" \\ 100% of\nlines\u2028'
    lines = lucene.bulk_lines(range(1), np.array([[5, 9]]), [title])
    assert json.loads(lines.splitlines()[1])["title"] == title


def test_requests_search_exactly(trained):
    indices, weights = QueryVectors(trained.paths.root, m=5).encode("topic3")
    body = lucene.Elasticsearch("", "solar").request(indices, weights, 10)
    assert body["query"]["sparse_vector"]["prune"] is False
    tokens = body["query"]["sparse_vector"]["query_vector"]
    assert [*map(int, tokens)] == indices.tolist()
    np.testing.assert_array_equal(np.float32([*tokens.values()]), weights)
    assert body["size"] == 10
    other = lucene.OpenSearch("", "solar").request(indices, weights, 10)
    assert other["query"] == {"neural_sparse": {"vector": {"query_tokens": tokens}}}


def test_what_the_engines_would_refuse_is_refused_with_a_remedy():
    def ask(engine, buckets, weight=1, k=10):
        weights = np.full(buckets, weight, np.float32)
        return engine("", "solar").request(np.arange(buckets), weights, k)

    ask(lucene.Elasticsearch, 1025, 64, 10_000)
    ask(lucene.OpenSearch, 1024)
    with pytest.raises(UserError, match="smaller --top_buckets"):
        ask(lucene.OpenSearch, 1025)
    with pytest.raises(UserError, match="higher --evidence_floor"):
        ask(lucene.OpenSearch, 2, weight=65)
    with pytest.raises(UserError, match="returns 10,000 at most"):
        ask(lucene.Elasticsearch, 1025, k=10_001)
    with pytest.raises(UserError, match="under the floor"):
        ask(lucene.Elasticsearch, 0)


@contextlib.contextmanager
def recording_server(answer):
    """Takes requests as an HTTP server does, and keeps them; it is no search engine."""
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def handle_any(self):
            length = int(self.headers["Content-Length"])
            kind = self.headers["Content-Type"]
            requests.append((self.command, self.path, kind, self.rfile.read(length)))
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_POST = handle_any

        def log_message(self, *arguments):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()


def test_a_server_gets_the_mapping_and_then_the_labels(preprocessed):
    with recording_server({"errors": False}) as (address, requests):
        export("elasticsearch", preprocessed.paths.root, address, name="books")
    assert [request[:3] for request in requests] == [
        ("PUT", "/books", "application/json"),
        ("POST", "/books/_bulk", "application/x-ndjson"),
    ]
    assert requests[1][3].count(b"\n") == 80


def test_a_label_that_a_server_refuses_or_no_server_is_an_error(preprocessed):
    answer = {"errors": True, "items": [{"index": {"_id": "3", "error": "too large"}}]}
    with (
        recording_server(answer) as (address, _),
        pytest.raises(UserError, match="label 3: too large"),
    ):
        export("opensearch", preprocessed.paths.root, address)
    with pytest.raises(UserError, match="see that the server runs there"):
        export("opensearch", preprocessed.paths.root, "http://127.0.0.1:9")
