"""The process: signals, reloads, start and end."""

import json
import os
import shutil
import signal
import socket
import time

import httpx
import pytest

from serving.server_process import AUTHORIZED, serving, wait_for


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_in_work_is_answered_before_the_end(trained, number):
    body = json.dumps({"queries": ["topic3 topic4"], "k": 2}).encode()
    head = (
        "POST /search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    with serving(trained.paths.root) as server:
        port = httpx.URL(server.url).port
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(head.encode() + body[:10])
            time.sleep(0.3)
            server.process.send_signal(number)
            time.sleep(0.5)
            with pytest.raises(OSError):  # no new ones
                socket.create_connection(("127.0.0.1", port), timeout=5)
            client.sendall(body[10:])
            received = b""
            while data := client.recv(65536):
                received += data
        assert received.startswith(b"HTTP/1.1 200") and b"about topic3" in received
        assert server.process.wait(30) == 0


def test_a_new_run_is_taken_up_without_a_dropped_request(trained, tmp_path):
    link, newer = tmp_path / "current", tmp_path / "newer"
    older = shutil.copytree(trained.paths.root, tmp_path / "older")
    shutil.copytree(trained.paths.root, newer)
    link.symlink_to(older)

    def ask(client):
        answer = client.get("/search", params={"q": "topic3 topic4", "m": 7})
        return answer.status_code, len(answer.json()["answers"][0]["labels"])

    with serving(link) as server, server.hammered(4, ask) as codes:
        assert server.get("/run").json()["run"] == "older"
        wait_for(lambda: len(codes) > 10)
        (tmp_path / "next").symlink_to(newer)
        os.replace(tmp_path / "next", link)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: server.get("/run").json()["run"] == "newer")
        answer = server.client.post("/reload", headers=AUTHORIZED)  # and by request
        assert answer.status_code == 200 and answer.json()["generation"] >= 3
        before = len(codes)
        wait_for(lambda: len(codes) > before + 10)
    assert {*codes} == {(200, 10)}


def test_a_run_that_cannot_be_opened_leaves_the_old_one_in_service(copied_run):
    with serving(copied_run) as server:
        (copied_run / "config.json").rename(copied_run / "config.gone")
        answer = server.client.post("/reload", headers=AUTHORIZED)
        assert answer.status_code == 409 and "config.json" in answer.json()["error"]["message"]
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert server.get("/search", q="topic3").status_code == 200
        assert 'solar_reloads_total{outcome="failed"} 2' in server.get("/metrics").text


def test_labels_changed_by_another_process_are_served(copied_run):
    from solar_tf import catalogue

    with serving(copied_run) as server:
        catalogue.add_labels(copied_run, ["topic8 topic9 elsewhere"])
        wait_for(lambda: server.get("/run").json()["labels"] == 41)
        assert 40 in server.found("topic8 topic9", m=7)


def test_damage_shows_in_health_and_ends_the_answers(copied_run):
    path = copied_run / "chunks/chunk_00/output_bias.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with serving(copied_run) as server:
        wait_for(lambda: server.get("/health").status_code == 503)
        assert "output_bias.npy" in server.get("/health").json()["detail"]
        assert server.get("/search", q="topic3").status_code == 503
