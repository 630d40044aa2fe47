"""Around the application: host, rate and size checks, security headers, counters, failures."""

import ipaddress
import logging
import math
import time

from solar_tf.serving.limits import TokenBuckets
from solar_tf.serving.refusals import Refusal, refusal_of

log = logging.getLogger("solar.serve")

UNLIMITED = ("/health", "/metrics", "/page/")  # cheap; monitors and the page's files
# The page loads nothing from elsewhere, and nobody may frame it.
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        b"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Gate:
    """ASGI middleware around the whole application."""

    def __init__(self, app, limits, counters, hosts=None):
        self.app, self.limits, self.counters = app, limits, counters
        self.hosts = hosts  # names that this server answers to; None for any
        self.buckets = TokenBuckets(limits.rate, limits.burst)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), None

        async def send_on(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
            await send(message)

        try:
            self._admit(scope)
            await self.app(scope, self._measured(receive), send_on)
        except Exception as error:
            if not isinstance(error, Refusal):
                log.exception("%s %s failed", scope["method"], scope["path"])
            if status is None:
                await refusal_of(error).response()(scope, receive, send_on)
        finally:
            # Routes, not paths: clients must not be able to create series.
            route = getattr(scope.get("route"), "path", None) or "other"
            self.counters.requests.labels(_method(scope), route, status or 499).inc()
            self.counters.seconds.labels(route).observe(time.perf_counter() - started)

    def _admit(self, scope):
        """Refuse a request by its head alone."""
        headers = dict(scope["headers"])
        if self.hosts and host_name(headers.get(b"host", b"")) not in self.hosts:
            # DNS rebinding: the page of a site whose name points here must not read answers.
            raise Refusal(421, "wrong_host", "this server does not answer to that host name")
        if not scope["path"].startswith(UNLIMITED):
            client = scope["client"][0] if scope.get("client") else ""
            if wait := self.buckets.take(client):
                rate = f"{self.limits.rate:g} requests a second"
                raise Refusal(429, "too_many_requests", rate, retry_after=math.ceil(wait))
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > self.limits.body_bytes:
            raise self._too_large()

    def _measured(self, receive):
        """Count the body's bytes: its length may be missing or wrong."""
        received = 0

        async def receive_on():
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.limits.body_bytes:
                raise self._too_large()
            return message

        return receive_on

    def _too_large(self):
        return Refusal(413, "too_large", f"a body has at most {self.limits.body_bytes} bytes")


def _method(scope):
    known = ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS")
    return scope["method"] if scope["method"] in known else "other"


def host_name(host):
    """The name in a Host header, without its port."""
    name = host.decode("latin-1").lower()
    if name.startswith("["):
        return name[1 : name.find("]")]
    return name.partition(":")[0]


def hosts_for(address, more=()):
    """The names to answer to: on a loopback address only those that mean this machine."""
    try:
        local = ipaddress.ip_address(address).is_loopback
    except ValueError:
        local = address == "localhost"
    names = {name.lower() for name in more}
    if local:
        return {"localhost", "127.0.0.1", "::1", address, *names}
    return {address, *names} if names else None
