"""What no request passes: foreign hosts, floods, bodies beyond the limit."""

import asyncio

import httpx
import pytest

from serving.server_process import AUTHORIZED, serving
from solar_tf.serving.counters import Counters
from solar_tf.serving.gate import Gate, host_name, hosts_for
from solar_tf.serving.limits import Limits


@pytest.mark.parametrize(
    ("host", "name"),
    [(b"localhost:8000", "localhost"), (b"[::1]:80", "::1"), (b"EXAMPLE.org", "example.org")],
)
def test_a_host_header_is_a_name_and_a_port(host, name):
    assert host_name(host) == name


def test_a_loopback_address_answers_to_this_machines_names_only():
    assert {"localhost", "127.0.0.1"} <= hosts_for("127.0.0.1")
    assert "search.example.org" in hosts_for("127.0.0.1", ["search.example.org"])
    assert hosts_for("0.0.0.0") is None


def test_a_page_elsewhere_cannot_read_by_way_of_its_own_name(server):
    answer = server.client.get("/search", params={"q": "topic3"}, headers={"host": "evil.example"})
    assert answer.status_code == 421


def test_every_response_carries_a_strict_policy(server):
    for path in ("/", "/search?q=topic3", "/no/such/path", "/page/main.js"):
        headers = server.client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_a_body_beyond_the_limit_is_refused_with_and_without_a_length(trained):
    body = b'{"queries": ["' + b"x" * 5000 + b'"]}'
    headers = {"content-type": "application/json"}
    with serving(trained.paths.root, "--body-bytes", 4000) as server:
        for content in (body, (part for part in (body[:3000], body[3000:]))):  # chunked, then
            answer = server.client.post("/search", content=content, headers=headers)
            assert answer.status_code == 413
            assert answer.json()["error"]["code"] == "too_large"
        assert server.get("/search", q="topic3").status_code == 200


def test_a_flood_is_slowed_down_but_not_the_monitors(trained):
    with serving(trained.paths.root, "--burst", 5, rate=1) as server:
        codes = [server.get("/search", q="topic3").status_code for _ in range(10)]
        assert codes[:5] == [200] * 5 and 429 in codes[5:]
        slow = server.get("/search", q="x")
        assert slow.status_code == 429 and int(slow.headers["retry-after"]) >= 1
        assert {server.get("/health").status_code for _ in range(20)} == {200}
        assert 'route="other",status="429"' in server.get("/metrics").text


def test_the_failure_of_a_route_is_a_500_without_its_reason():
    async def broken(scope, receive, send):
        raise RuntimeError("/home/secret")

    async def ask():
        transport = httpx.ASGITransport(Gate(broken, Limits(), Counters()))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.get("/", headers=AUTHORIZED)

    answer = asyncio.run(ask())
    assert answer.status_code == 500 and "secret" not in answer.text
