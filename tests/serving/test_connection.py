"""Clients that never finish a request, on a real socket."""

import asyncio
import socket
import threading
import time

import pytest
import uvicorn

from solar_tf.serving import connection


async def hello(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture(scope="module")
def port():
    config = uvicorn.Config(
        hello, http=connection.Connection, lifespan="off", log_level="critical", port=0
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join()


def talk(port, *parts):
    """Send the parts and return all that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        for part in parts:
            client.sendall(part)
        received = b""
        try:
            while data := client.recv(65536):
                received += data
        except ConnectionResetError:
            pass  # it closed while there was more to read
        return received


def test_a_request_is_answered_and_so_is_the_next_on_the_same_connection(port):
    one = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
    last = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    assert talk(port, one, one, last).count(b"hello") == 3


def test_a_large_body_is_no_large_head(port):
    body = b"x" * (4 * connection.HEAD_BYTES)
    head = f"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    assert b"hello" in talk(port, head.encode() + body)


def test_headers_without_end_are_cut_off(port):
    head = b"GET / HTTP/1.1\r\nhost: x\r\n"
    filler = b"".join(b"x-%d: %s\r\n" % (i, b"y" * 1000) for i in range(40))
    assert talk(port, head, filler).startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize(
    "start",
    [b"", b"GET / HTTP/1.1\r\nhost:", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nx"],
    ids=["nothing", "half a head", "half a body"],
)
def test_a_client_that_dawdles_is_hung_up_on(port, start, monkeypatch):
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.3)
    started = time.monotonic()
    assert talk(port, start).startswith(b"HTTP/1.1 408")
    assert time.monotonic() - started < 5
