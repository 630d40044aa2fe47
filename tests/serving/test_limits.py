"""Token buckets, by a clock that the test turns."""

from solar_tf.serving.limits import TokenBuckets


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_a_client_may_burst_and_then_goes_at_the_rate():
    clock = Clock()
    buckets = TokenBuckets(rate=2, burst=3, clock=clock)
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 0]
    assert buckets.take("a") == 0.5  # seconds until the next token
    clock.now += 0.5
    assert buckets.take("a") == 0
    assert buckets.take("a") > 0
    clock.now += 1000
    assert [buckets.take("a") == 0 for _ in range(4)] == [True, True, True, False]


def test_clients_do_not_share_a_bucket_and_a_rate_of_zero_is_no_limit():
    buckets = TokenBuckets(rate=1, burst=1, clock=Clock())
    assert buckets.take("a") == 0 < buckets.take("a")
    assert buckets.take("b") == 0
    unlimited = TokenBuckets(rate=0, burst=1, clock=Clock())
    assert not any(unlimited.take("a") for _ in range(100))


def test_memory_is_bounded_however_many_clients_come():
    buckets = TokenBuckets(rate=1, burst=1, clock=Clock())
    for client in range(buckets.MOST_CLIENTS + 500):
        buckets.take(client)
    assert len(buckets.buckets) == buckets.MOST_CLIENTS
