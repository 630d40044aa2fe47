"""What a client may ask for, and how often."""

import time
from collections import OrderedDict
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Sizes of a request; each is a flag of `solar serve`."""

    body_bytes: int = 1_000_000
    query_length: int = 1000  # characters
    queries: int = 64  # in one request
    results: int = 1000  # k
    listed_labels: int = 10_000  # in an allow- or deny-list
    where_length: int = 10_000  # characters of conditions on attributes
    new_labels: int = 1000  # added by one request
    rate: float = 50.0  # requests a second of one client; 0 for no limit
    burst: int = 100


class TokenBuckets:
    """A bucket of tokens for each client: `burst` deep, refilled at `rate` a second."""

    MOST_CLIENTS = 10_000  # the least recent is evicted: its bucket would be full again

    def __init__(self, rate, burst, clock=time.monotonic):
        self.rate, self.burst, self.clock = rate, burst, clock
        self.buckets = OrderedDict()

    def take(self, client):
        """0 if the client may go on, else the seconds until it may."""
        if not self.rate:
            return 0
        now = self.clock()
        tokens, then = self.buckets.pop(client, (self.burst, now))
        tokens = min(self.burst, tokens + (now - then) * self.rate)
        allowed = tokens >= 1
        self.buckets[client] = (tokens - 1 if allowed else tokens, now)
        if len(self.buckets) > self.MOST_CLIENTS:
            self.buckets.popitem(last=False)
        return 0 if allowed else (1 - tokens) / self.rate
