"""Searches by attribute, as a client sees them."""

import signal
import subprocess
import sys

import pytest
from conftest import ROOT

from serving.conftest import write_attributes
from serving.server_process import AUTHORIZED, serving, wait_for
from solar_tf.retrieval.searcher import open_searcher

ODD = 'kind="odd one"'


def found(server, where, **parameters):
    return server.found(**{"q": "topic3 topic4", "k": 40, "m": "full"} | parameters, where=where)


@pytest.mark.parametrize(
    ("where", "labels"),
    [
        (ODD, range(1, 40, 2)),
        ("kind!=even number<9", range(1, 9, 2)),
        ("number>=10 number<=12", [10, 11, 12]),
        ('note="a note"', [3]),
        ('note!=""', [3]),
        (f'note="" {ODD} number=3|5|7', [5, 7]),
        ("", range(40)),
    ],
)
def test_a_search_finds_the_best_of_those_that_meet_the_conditions(server, trained, where, labels):
    searcher = open_searcher(trained.paths.root)
    expected = searcher.search("topic3 topic4", k=40, m=None, allow=[*labels])
    assert found(server, where) == [hit.label for hit in expected]
    body = {"queries": ["topic3 topic4"], "k": 40, "m": "full", "where": where}
    (answer,) = server.client.post("/search", json=body).json()["answers"]
    assert [label["label"] for label in answer["labels"]] == [hit.label for hit in expected]


def test_conditions_go_with_the_other_filters(server):
    options = {"allow": [3, 4, 5, 7], "deny": [5], "m": "full", "k": 9}
    assert {*found(server, ODD, **options)} == {3, 7}
    scores = [label["score"] for label in server.search("topic3", m="full", where=ODD)["labels"]]
    best = found(server, ODD, q="topic3", threshold=scores[1] + 1e-3, min_chunks=3)
    assert best == [3] and scores[1] < scores[0]


def test_an_explanation_counts_those_that_the_conditions_let_pass(server):
    for m, least in (("full", 20), (2, 1)):
        options = {"q": "topic3 topic4", "m": m, "explain": True}
        answer, of_all = server.search(where=ODD, **options), server.search(**options)
        assert least <= answer["candidates"] <= min(20, of_all["candidates"] - 1) < 40
        for label in answer["labels"] + of_all["labels"]:
            score = sum(chunk["weight"] for chunk in label["chunks"])
            assert score == pytest.approx(label["score"])


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("colour=red", "no such attribute: choose of kind, number, note"),
        ("kind=evn", "no label has the kind 'evn': did you mean even?"),
        ("kind=even|zero", "no label has the kind 'zero': choose of even, odd one"),
        ("number>many", "'many' is not a number"),
        ("kind>3", "not all numbers"),
        ("kind", "no condition"),
        ("a" * 10_001, "at most 10000 characters"),
    ],
)
def test_what_is_wrong_with_a_condition_is_told(server, where, message):
    body = {"queries": ["topic3"], "where": where}
    for answer in (
        server.get("/search", q="topic3", where=where),
        server.get("/labels/3/neighbours", where=where),
        server.client.post("/search", json=body),
    ):
        assert answer.status_code == 422
        error = answer.json()["error"]
        assert error["code"] == "invalid" and error["fields"][0]["field"] == "where"
        assert message in error["message"]


def test_labels_tell_their_attributes_and_the_server_what_there_is(server):
    assert server.get("/run").json()["attributes"] == ["kind", "number", "note"]
    kind, number, note = server.get("/attributes").json()["attributes"]
    assert {"value": "odd one", "labels": 20} in kind["values"] and kind["kind"] == "text"
    assert (number["kind"], number["least"], number["most"]) == ("number", 0, 39)
    assert (note["labels"], note["distinct"]) == (1, 1)
    whole = {"kind": "odd one", "number": 3, "note": "a note"}
    assert server.get("/labels/3").json()["attributes"] == whole
    assert server.search("topic3", k=1)["labels"][0]["attributes"] == whole


def test_a_server_without_attributes_says_so(copied_run):
    with serving(copied_run) as server:
        assert server.get("/attributes").json() == {"attributes": []}
        assert "attributes" not in server.search("topic3")["labels"][0]
        answer = server.get("/search", q="topic3", where="kind=even")
        assert answer.status_code == 422
        assert "labels have no attributes" in answer.json()["error"]["message"]


def add(server, **body):
    return server.client.post("/labels", json=body, headers=AUTHORIZED)


def test_new_labels_carry_attributes_and_the_searches_beside_go_on(run_with_attributes):
    def ask(client):
        few = {"q": "topic3", "m": "full", "where": "number<5"}
        return len(client.get("/search", params=few).json()["answers"][0]["labels"])

    with serving(run_with_attributes) as server, server.hammered(1, ask) as outcomes:
        new = {"kind": "odd one", "number": 41, "note": "new"}
        titles = ["topic3 topic4 anew", "topic3 again"]
        answer = add(server, titles=titles, attributes=[new, {}])
        assert (answer.status_code, answer.json()) == (201, {"labels": [40, 41]})
        for rows, message in (
            ([{"colour": "red"}], "no such attribute"),
            ([{"number": "many"}], "is not a number"),
            ([{}, {}], "2 objects, where there are 1 titles"),
        ):
            answer = add(server, titles=["topic5"], attributes=rows)
            assert answer.status_code == 422 and message in answer.json()["error"]["message"]
        assert add(server, titles=["topic3 too"]).json() == {"labels": [42]}
        assert server.get("/labels/40").json()["attributes"] == new
        assert found(server, "number>39") == [40] and found(server, "note=new") == [40]
        assert {*found(server, 'kind=""', k=50)} == {41, 42}
        (kind, *_) = server.get("/attributes").json()["attributes"]
        assert kind["labels"] == 41
        server.client.delete("/labels?label=40", headers=AUTHORIZED)
        assert server.get("/attributes").json()["attributes"][0]["labels"] == 40
        assert found(server, "number>39") == []
    assert outcomes and {*outcomes} == {5}


def test_a_reload_reads_the_attributes_again_and_refuses_what_does_not_fit(
    run_with_attributes, tmp_path
):
    path = tmp_path / "other.tsv"
    write_attributes(path, extra="\tx")
    with serving(run_with_attributes, "--attributes", path) as server:
        assert server.get("/run").json()["attributes"] == ["kind", "number", "note", "x"]
        assert add(server, titles=["topic3 anew"], attributes=[{"x": "y"}]).status_code == 201
        write_attributes(path, num_labels=39)
        answer = server.client.post("/reload", headers=AUTHORIZED)
        assert answer.status_code == 409
        assert "39 labels, where the run has 41" in answer.json()["error"]["message"]
        assert found(server, "x=y") == [40]  # the old ones serve
        write_attributes(path)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: server.get("/health").json()["generation"] >= 3)
        assert found(server, "number=3") == [3] and found(server, "x=y") == [40]


def test_a_file_that_does_not_fit_ends_the_start_with_one_line(copied_run, tmp_path):
    write_attributes(tmp_path / "few.tsv", num_labels=7)
    (tmp_path / "bad.tsv").write_text("a\tb\n1\n")
    for name, message in (
        ("few.tsv", "few.tsv: attributes of 7 labels, where the run has 40: write a line for each"),
        ("bad.tsv", "bad.tsv:2: 1 fields under a header of 2"),
        ("none.tsv", "none.tsv: no such file"),
    ):
        command = [sys.executable, "-m", "solar_tf", "serve", copied_run, "--port", "0"]
        done = subprocess.run(
            [*command, "--attributes", tmp_path / name], capture_output=True, text=True, cwd=ROOT
        )
        assert done.returncode == 1
        assert message in done.stderr and done.stderr.count("\n") == 1
