"""The routes, as a client sees them."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from serving.server_process import AUTHORIZED, serving
from solar_tf.retrieval.searcher import open_searcher


@pytest.mark.parametrize(
    "options", [{"m": 7}, {"k": 40, "m": "full", "deny": [3]}, {"m": "full", "allow": [5, 6]}]
)
def test_one_text_and_several_are_answered_as_offline(server, trained, options):
    searcher = open_searcher(trained.paths.root)
    offline = {"k": 10} | options | ({"m": None} if options["m"] == "full" else {})
    texts = ["topic3 topic4", "topic7 noise1"]
    several = server.client.post("/search", json={"queries": texts} | options).json()
    for text, answer in zip(texts, several["answers"], strict=True):
        hits = searcher.search(text, **offline)
        assert [found["label"] for found in answer["labels"]] == [hit.label for hit in hits]
        scores = [found["score"] for found in answer["labels"]]
        assert scores == pytest.approx([hit.score for hit in hits], rel=1e-5)
        assert server.found(text, **options) == [hit.label for hit in hits]
        assert len(hits) == {"deny": 39, "allow": 2}.get(list(options)[-1], 10)
    assert set(several["ms"]) == {"waited", "searched", "batch"}


def test_neighbours_are_found_by_the_title_and_without_itself(server):
    answer = server.get("/labels/7/neighbours", k=40, m="full").json()["answers"][0]
    assert answer["query"] == server.get("/labels/7").json()["title"] == "about topic7"
    assert {found["label"] for found in answer["labels"]} == {*range(40)} - {7}


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/search", "q"),
        ("/search?q=", "q"),
        ("/search?q=a&k=0", "k"),
        ("/search?q=a&k=1e9", "k"),
        ("/search?q=a&m=-1", "m"),
        ("/search?q=a&score=best", "score"),
        ("/search?q=a&threshold=nan", "threshold"),
        ("/search?q=a&kk=3", "kk"),
        ("/search?q=" + "a" * 1001, "q"),
        ("/labels/minus", "label"),
    ],
)
def test_a_bad_parameter_is_named(server, path, field):
    answer = server.get(path)
    assert answer.status_code == 422
    assert field in [error["field"].split(".")[0] for error in answer.json()["error"]["fields"]]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * 100_000,
        b'{"queries": ["\\ud800"]}',
        b'{"queries": "topic3"}',
        b'{"queries": []}',
        b'{"queries": ["a"], "k": 1' + b"0" * 5000 + b"}",
        b'{"queries": ["a"], "threshold": NaN}',
        b"\xff\xfe",
        b"null",
    ],
)
def test_a_bad_body_is_a_clients_mistake(server, body):
    headers = {"content-type": "application/json"}
    answer = server.client.post("/search", content=body, headers=headers)
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["message"]


def test_unknown_words_are_an_empty_answer_and_no_error(server):
    assert server.found("xyzzy \x00 \u2028 ☃", explain=True) == []


def test_changes_need_the_token(copied_run):
    with serving(copied_run) as server:
        add = {"titles": ["topic5 topic6 anew"]}
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic eDp5"}):
            assert server.client.post("/labels", json=add, headers=headers).status_code == 401
            assert server.client.delete("/labels?label=1", headers=headers).status_code == 401
            assert server.client.post("/reload", headers=headers).status_code == 401
        answer = server.client.post("/labels", json=add, headers=AUTHORIZED)
        assert (answer.status_code, answer.json()) == (201, {"labels": [40]})
        assert 40 in server.found("topic5 topic6", m=7)[:3]
        assert server.get("/labels/40").json()["title"] == "topic5 topic6 anew"
        answer = server.client.delete("/labels?label=40&label=5", headers=AUTHORIZED)
        assert answer.json() == {"labels": [5, 40]}
        assert not {5, 40} & {*server.found("topic5 topic6", m="full", k=41)}
        assert server.client.delete("/labels?label=41", headers=AUTHORIZED).status_code == 404


def test_queries_of_many_clients_share_batches_and_none_gets_anothers_answer(server):
    def ask(i):
        text = f"topic{i % 40}"
        with httpx.Client(base_url=server.url, timeout=60) as client:
            found = client.get("/search", params={"q": text, "k": 1 + i % 5, "m": 7}).json()
        return text, 1 + i % 5, found

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(120)))
    for text, k, found in answers:
        assert found["answers"][0]["query"] == text
        assert len(found["answers"][0]["labels"]) == k
    assert max(found["ms"]["batch"] for _, _, found in answers) > 1


def test_the_pages_and_their_files_are_there(server):
    for path in ("/", "/docs", "/page/main.js", "/page/style.css", "/page/icon.svg"):
        assert server.get(path).status_code == 200
    assert server.get("/page/../app.py").status_code == 404
    assert server.get("/openapi.json").json()["info"]["title"] == "SOLAR search"


def test_health_facts_and_metrics(server):
    health = server.get("/health").json()
    assert health["status"] in ("ok", "verifying") and health["run"] == "topics"
    assert server.get("/run").json()["labels"] == 40
    server.get("/search", q="topic3")
    metrics = server.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "solar_labels 40" in metrics.text and "solar_queries_total" in metrics.text


ONLY_ATTRIBUTES = """
import schemathesis

@schemathesis.check
def nothing_but_attributes_is_refused(ctx, response, case):
    if case.meta and case.meta.generation.mode.is_positive and response.status_code == 422:
        fields = {field["field"] for field in response.json()["error"]["fields"]}
        assert fields <= {"where", "attributes"}, f"valid, but refused for {fields}"
"""


def test_schemathesis_finds_no_fault(run_with_attributes, tmp_path):
    """Requests made up from the OpenAPI document: no 500, and no answer that is not in it."""
    pytest.importorskip("schemathesis", reason="schemathesis is not installed: [test] has it")
    command = [
        sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()",
        "run", "--max-examples=3", "--phases=coverage,fuzzing", "--seed=1", "--no-color",
        "--header", f"Authorization: {AUTHORIZED['authorization']}",
    ]  # fmt: skip
    # Which attributes there are is not in the document: a made-up one may be refused, and no more.
    (tmp_path / "refusals.py").write_text(ONLY_ATTRIBUTES)
    (tmp_path / "schemathesis.toml").write_text(
        'hooks = "refusals"\n'
        '[[operations]]\ninclude-path-regex = "^/search$|/neighbours$|^/labels$"\n'
        "[operations.checks.positive_data_acceptance]\n"
        'expected-statuses = ["2xx", 401, 403, 404, 409, 422, "5xx"]\n'
    )
    with serving(run_with_attributes) as server:
        done = subprocess.run(
            [*command, f"{server.url}openapi.json"], capture_output=True, text=True, cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
        )  # fmt: skip
        short = "\n".join(line[:200] for line in done.stdout.splitlines()[-60:])
        assert done.returncode == 0, short
        assert "No issues found" in done.stdout
        assert 'status="500"' not in server.get("/metrics").text
