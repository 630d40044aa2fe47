"""The public functions of retrieval and the process pool."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from solar_tf.errors import UserError
from solar_tf.retrieval import RankPool, rank, rank_full, score_weights, top_buckets

# Two chunks of three buckets, five labels: small enough to check by thought.
LABEL_BUCKETS = np.array([[0, 1, 1, 2, 0], [1, 1, 0, 0, 1]], np.uint16)
OFFSETS = np.array([[0, 2, 4, 5], [0, 2, 5, 5]], np.uint32)
LABELS = np.array([[0, 4, 1, 2, 3], [2, 3, 0, 1, 4]], np.int32)
PROBABILITIES = np.array([[[0.5, 0.25, 0], [0.25, 0.5, 0.125]]], np.float32)


def test_sums_the_hits_of_a_label_over_the_chunks():
    ids, scores, candidates = rank([[[0], [1]]], [[[0.5], [0.5]]], OFFSETS, LABELS, k=4)
    assert ids.tolist() == [[0, 4, 1, -1]]
    assert scores.tolist() == [[1.0, 1.0, 0.5, 0.0]]
    assert candidates.tolist() == [3]


def test_full_ranking_scores_every_label():
    ids, scores = rank_full(PROBABILITIES, LABEL_BUCKETS, k=7)
    assert ids.tolist() == [[0, 4, 1, 2, 3, -1, -1]]
    assert scores.tolist() == [[1.0, 1.0, 0.75, 0.5, 0.25, 0, 0]]


def test_zero_weights_still_make_candidates():
    ids, scores, candidates = rank([[[1], [2]]], [[[0.0], [0.0]]], OFFSETS, LABELS, k=3)
    assert ids.tolist() == [[1, 2, -1]]
    assert scores.tolist() == [[0, 0, 0]]
    assert candidates.tolist() == [2]


def test_top_buckets_break_ties_towards_the_lower_bucket():
    buckets, values = top_buckets(np.array([[0, 0.5, 1, 0.5, 0]], np.float32), 4)
    assert buckets.tolist() == [[2, 1, 3, 0]]
    assert values.tolist() == [[1, 0.5, 0.5, 0]]


@pytest.mark.parametrize("bad", [np.nan, -1.0, -0.0])
def test_top_buckets_refuse_what_is_no_probability(bad):
    with pytest.raises(ValueError, match="neither negative nor NaN"):
        top_buckets(np.array([[0.5, 0.5], [0.5, bad]], np.float32), 1)


@pytest.mark.parametrize("m", [0, 6])
def test_top_buckets_refuse_an_impossible_m(m):
    with pytest.raises(ValueError, match=f"m={m} "):
        top_buckets(np.zeros((1, 5), np.float32), m)


@pytest.mark.parametrize("bad", [np.nan, -1.0, -0.0, np.inf, 3e38])
def test_rankings_refuse_weights_that_cannot_be_summed(bad):
    with pytest.raises(ValueError, match="weights must be"):
        rank([[[0], [1]]], [[[0.5], [bad]]], OFFSETS, LABELS, k=1)
    with pytest.raises(ValueError, match="weights must be"):
        rank_full(np.full((1, 2, 3), bad), LABEL_BUCKETS, k=1)


def test_rank_refuses_another_number_of_chunks():
    with pytest.raises(ValueError, match="shapes do not fit"):
        rank([[[0]]], [[[0.5]]], OFFSETS, LABELS, k=1)
    with pytest.raises(ValueError, match="shapes do not fit"):
        rank_full(PROBABILITIES[:, :1], LABEL_BUCKETS, k=1)


@pytest.mark.parametrize("bucket", [-1, 3])
def test_rankings_refuse_buckets_out_of_range(bucket):
    with pytest.raises(ValueError, match="not all within 0 and 2"):
        rank([[[0], [bucket]]], np.ones((1, 2, 1)), OFFSETS, LABELS, k=1)
    with pytest.raises(ValueError, match="not all within 0 and 2"):
        rank_full(PROBABILITIES, np.full((2, 5), bucket), k=1)


def test_without_labels_there_is_only_padding():
    none = np.zeros((2, 0), np.int32)
    ids, _, candidates = rank([[[0], [1]]], [[[1], [1]]], np.zeros_like(OFFSETS), none, k=2)
    assert ids.tolist() == [[-1, -1]] and candidates.tolist() == [0]
    assert rank_full(PROBABILITIES, none, k=2)[0].tolist() == [[-1, -1]]


def test_score_weights():
    probabilities = [0, 1e-5, 1e-4, 1e-3, 1]
    np.testing.assert_array_equal(
        score_weights(probabilities, "probability"), np.float32(probabilities)
    )
    evidence = score_weights(probabilities, "evidence", floor=1e-4)
    np.testing.assert_allclose(evidence, [0, 0, 0, np.log(10), np.log(1e4)], rtol=1e-6)
    assert evidence.dtype == np.float32
    with pytest.raises(ValueError, match="'odds' is not one of probability, evidence"):
        score_weights(probabilities, "odds")


@pytest.mark.parametrize("score", ["probability", "evidence"])
def test_all_buckets_and_the_full_ranking_agree(score):
    probabilities = np.random.default_rng(0).random((9, 2, 3), np.float32) ** 20
    buckets, values = top_buckets(probabilities.reshape(-1, 3), 3)
    buckets, values = buckets.reshape(9, 2, 3), values.reshape(9, 2, 3)
    ids, scores, _ = rank(buckets, score_weights(values, score), OFFSETS, LABELS, k=5)
    full_ids, full_scores = rank_full(score_weights(probabilities, score), LABEL_BUCKETS, k=5)
    np.testing.assert_array_equal(ids, full_ids)
    np.testing.assert_array_equal(scores, full_scores)


# Stand-ins for `rank` that a spawned worker can import.


def killed_once(queries, marker, k):
    """Its process is killed while it works on a 3, as long as the marker's file is missing."""
    path = bytes(marker).decode()
    if 3 in queries and not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return (queries + k,)


def killed_always(queries, index, k):
    if 3 in queries:
        os.kill(os.getpid(), signal.SIGKILL)
    return (queries,)


def stuck(queries, index, k):
    time.sleep(60)


def refused(queries, index, k):
    raise ValueError("no such query")


def modules(queries, index, k):
    return (np.array(["tensorflow" in sys.modules]),)


@pytest.fixture
def numbers():
    return np.arange(10)


@pytest.mark.parametrize("workers", [1, 2])
def test_pool_equals_the_function(workers, tmp_path):
    rng = np.random.default_rng(0)
    weights = rng.random((50, 2, 3), np.float32)
    buckets, values = top_buckets(weights.reshape(-1, 3), 2)
    queries = buckets.reshape(50, 2, 2), values.reshape(50, 2, 2)
    seen = []
    with RankPool(rank, (OFFSETS, LABELS), workers=workers, folder=tmp_path) as pool:
        for _ in range(2):
            result = pool.map(*queries, k=3, block=8, progress=lambda *at: seen.append(at))
            for got, expected in zip(result, rank(*queries, OFFSETS, LABELS, 3), strict=True):
                np.testing.assert_array_equal(got, expected)
                assert got.dtype == expected.dtype
        none = pool.map(queries[0][:0], queries[1][:0], k=3)
    assert [len(array) for array in none] == [0, 0, 0]
    assert len(seen) == 2 * 7 and seen[-1] == (50, 50)
    with RankPool(rank_full, (LABEL_BUCKETS,), workers=workers, folder=tmp_path) as pool:
        for got, expected in zip(
            pool.map(weights, k=3, block=8), rank_full(weights, LABEL_BUCKETS, 3), strict=True
        ):
            np.testing.assert_array_equal(got, expected)
    assert list(tmp_path.iterdir()) == []


def test_pool_replaces_a_killed_worker(tmp_path, numbers):
    marker = np.frombuffer(os.fsencode(tmp_path / "marker"), np.uint8)
    with RankPool(killed_once, (marker,), workers=2, folder=tmp_path) as pool:
        (result,) = pool.map(numbers, k=5, block=1)
    assert result.tolist() == list(range(5, 15))


def test_pool_gives_up_on_a_block_that_always_kills(tmp_path, numbers):
    with (
        RankPool(killed_always, (numbers,), workers=2, folder=tmp_path) as pool,
        pytest.raises(UserError, match="queries 2 to 3 died 3 times"),
    ):
        pool.map(numbers, k=5, block=2)
    assert list(tmp_path.iterdir()) == []


def test_pool_does_not_wait_forever(tmp_path, numbers):
    with (
        RankPool(stuck, (numbers,), workers=2, folder=tmp_path, timeout=0.5) as pool,
        pytest.raises(UserError, match="3 times"),
    ):
        pool.map(numbers, k=1)


def test_pool_passes_exceptions_on_and_works_after(tmp_path, numbers):
    with (
        RankPool(refused, (numbers,), workers=2, folder=tmp_path) as pool,
        pytest.raises(ValueError, match="no such query"),
    ):
        pool.map(numbers, k=1)

    def interrupt(done, total):
        raise KeyboardInterrupt

    with RankPool(rank_full, (LABEL_BUCKETS,), workers=2, folder=tmp_path) as pool:
        with pytest.raises(KeyboardInterrupt):
            pool.map(np.ones((9, 2, 3), np.float32), k=1, block=1, progress=interrupt)
        (ids, scores) = pool.map(np.ones((1, 2, 3), np.float32), k=1)
    assert (ids, scores) == (0, 2)
    assert list(tmp_path.iterdir()) == []


def test_workers_do_not_load_tensorflow(tmp_path, numbers):
    with RankPool(modules, (numbers,), workers=2, folder=tmp_path) as pool:
        assert pool.map(numbers, k=1)[0].tolist() == [False]


INTERRUPTED = """
import sys
import numpy as np
from solar_tf.retrieval import RankPool, rank_full

if __name__ == "__main__":
    weights, buckets = np.ones((400, 4, 9), np.float32), np.zeros((4, 500_000), np.uint16)
    with RankPool(rank_full, (buckets,), workers=2, folder=sys.argv[1]) as pool:
        while True:
            pool.map(weights, k=9, block=8, progress=lambda *at: print(at, flush=True))
"""


def test_interrupt_ends_all_processes_and_removes_the_files(tmp_path):
    script, folder = tmp_path / "interrupted.py", tmp_path / "folder"
    script.write_text(INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, script, folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that the signal goes to the whole group, as Ctrl-C does
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1 and "resource_tracker" not in errors
    assert list(folder.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        for _ in range(100):  # multiprocessing's own tracker ends a little later
            os.killpg(process.pid, 0)
            time.sleep(0.1)
