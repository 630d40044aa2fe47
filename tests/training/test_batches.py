import numpy as np
import pytest
import tensorflow as tf

from solar_tf.errors import UserError
from solar_tf.run.records import BUCKETS, DENSE, IDS, VALUES, encode, write_records
from solar_tf.runtime.ragged import row_splits
from solar_tf.training.batches import damage_explained, read_batches
from solar_tf.training.model import SPARSE_INPUTS, TARGETS

ROWS_PER_FILE = (40, 1, 0, 37, 25)
NUM_ROWS = sum(ROWS_PER_FILE)
DIM = 6


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Row r holds r as its first token and bucket; other tokens, some rows without, follow."""
    folder = tmp_path_factory.mktemp("files")
    first = 0
    for shard, count in enumerate(ROWS_PER_FILE):
        rows = np.arange(first, first + count)
        lengths = rows % 4
        splits = row_splits(lengths)
        tokens = np.repeat(rows, lengths) + 1000 * (
            np.arange(splits[-1]) - np.repeat(splits[:-1], lengths)
        )
        buckets = (np.arange(count + 1), rows)
        columns = {IDS: (splits, tokens), VALUES: (splits, tokens / 8), BUCKETS: buckets}
        write_records(folder / f"sparse_{shard}.tfrecord", columns)
        write_records(folder / f"buckets_{shard}.tfrecord", {BUCKETS: buckets})
        dense = np.repeat(rows, DIM) + np.tile(np.arange(DIM) / 8, count)
        write_records(
            folder / f"dense_{shard}.tfrecord", {DENSE: (np.arange(count + 1) * DIM, dense)}
        )
        first += count
    shards = range(len(ROWS_PER_FILE))
    return {
        kind: [folder / f"{kind}_{k}.tfrecord" for k in shards]
        for kind in ("sparse", "buckets", "dense")
    }


def to_numpy(dataset):
    return [{name: tensor.numpy() for name, tensor in batch.items()} for batch in dataset]


def row_numbers(dataset):
    return np.concatenate([batch["buckets"] for batch in dataset]).tolist()


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("shuffle_rows", [1, 30, 1000])
def test_every_row_comes_once_with_its_own_tokens(files, seed, shuffle_rows):
    dataset = read_batches(files["sparse"], 8, seed=seed, shuffle_rows=shuffle_rows)
    targets = dict.fromkeys(TARGETS, tf.TensorSpec([None], tf.int32))
    assert dataset.element_spec == SPARSE_INPUTS | targets
    batches = to_numpy(dataset)
    assert [len(batch["row_splits"]) - 1 for batch in batches] == [8] * 12 + [NUM_ROWS % 8]
    rows = row_numbers(dataset)
    assert (sorted(rows) if seed else rows) == [*range(NUM_ROWS)]
    for batch in batches:
        np.testing.assert_array_equal(np.diff(batch["bucket_splits"]), 1)
        np.testing.assert_array_equal(np.diff(batch["row_splits"]), batch["buckets"] % 4)
        np.testing.assert_array_equal(batch["values"], batch["ids"] / 8)
        np.testing.assert_array_equal(
            batch["ids"] % 1000, np.repeat(batch["buckets"], np.diff(batch["row_splits"]))
        )


def expected_order(seed, epoch, shuffle_rows):
    """Models of the same seed stay the same from version to version."""
    order = np.random.default_rng([seed, epoch])
    shards = order.permutation(len(ROWS_PER_FILE))
    key = order.integers(2**62)
    starts = np.cumsum([0, *ROWS_PER_FILE])
    rows = np.concatenate([np.arange(starts[k], starts[k + 1]) for k in shards])
    for block, start in enumerate(range(0, NUM_ROWS, shuffle_rows)):
        part = rows[start : start + shuffle_rows]
        part[:] = tf.random.experimental.stateless_shuffle(part, [key, block], alg="philox")
    return rows.tolist()


@pytest.mark.parametrize("shuffle_rows", [16, 64, 1000])
def test_the_order_is_a_fixed_function_of_seed_and_epoch(files, shuffle_rows):
    """Whatever TensorFlow's own seed is. An epoch that fits is shuffled as a whole."""
    orders = set()
    for number, (seed, epoch) in enumerate([(1, 0), (1, 1), (2, 0)]):
        tf.random.set_seed(number)
        options = {"seed": seed, "epoch": epoch, "shuffle_rows": shuffle_rows}
        rows = row_numbers(read_batches(files["sparse"], 8, **options))
        assert rows == expected_order(**options)
        orders.add(tuple(rows))
    assert len(orders) == 3


@pytest.mark.parametrize("shuffle_rows", [16, 1000])
def test_a_variable_decides_the_epoch_of_every_iteration(files, shuffle_rows):
    epoch, options = tf.Variable(0, dtype=tf.int64), {"seed": 1, "shuffle_rows": shuffle_rows}
    batches = read_batches(files["sparse"], 8, epoch=epoch, num_epochs=4, **options)
    assert len(batches) == 13
    for number in (0, 3, 1, 1):
        epoch.assign(number)
        assert row_numbers(batches) == expected_order(epoch=number, **options)


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("shuffle_rows", [16, 1000])
def test_skipping_continues_an_interrupted_epoch(files, seed, shuffle_rows):
    options = {"seed": seed, "epoch": 2, "shuffle_rows": shuffle_rows}
    unbroken = to_numpy(read_batches(files["sparse"], 8, **options))
    for skip in (0, 1, 5, len(unbroken) - 1, len(unbroken)):
        resumed = to_numpy(read_batches(files["sparse"], 8, skip=skip, **options))
        np.testing.assert_equal(resumed, unbroken[skip:])


@pytest.mark.parametrize("seed", [None, 6])
def test_dense_inputs_stay_with_their_buckets(files, seed):
    sources = {"paths": files["buckets"], "dense_paths": files["dense"], "dense_dim": DIM}
    batches = read_batches(**sources, batch_size=8, seed=seed, shuffle_rows=24)
    rows = row_numbers(batches)
    assert sorted(rows) == [*range(NUM_ROWS)]
    dense = np.concatenate([batch["dense"] for batch in batches])
    np.testing.assert_array_equal(dense, np.array(rows)[:, None] + np.arange(DIM) / 8)


def test_without_targets_there_are_inputs_alone(files):
    dense = {"dense_paths": files["dense"], "dense_dim": DIM}
    (batch,) = to_numpy(read_batches(files["buckets"], NUM_ROWS, targets=False, **dense))
    assert batch.keys() == {"dense"}
    np.testing.assert_array_equal(batch["dense"][:, 0], np.arange(NUM_ROWS))
    (batch,) = to_numpy(read_batches(files["sparse"], NUM_ROWS, targets=False))
    assert batch.keys() == {"ids", "values", "row_splits"}


@pytest.mark.parametrize("damage", ["cut", "flipped", "missing"])
@pytest.mark.parametrize("seed", [None, 0])
def test_damage_names_the_file_and_the_stage_to_run_again(tmp_path, damage, seed):
    columns = {BUCKETS: (np.arange(101), np.arange(100))}
    paths = [tmp_path / "sound.tfrecord", tmp_path / "bad.tfrecord"]
    write_records(paths[0], columns)
    data = encode(columns)
    if damage == "flipped":
        data[len(data) // 2] ^= 4
    if damage != "missing":
        (data[:-3] if damage == "cut" else data).tofile(paths[1])
    named = pytest.raises(UserError, match=r"bad\.tfrecord: .*preprocess\.py")
    with named, damage_explained(paths):
        to_numpy(read_batches(paths, 8, seed=seed))


def test_rows_of_other_lengths_are_named(files, tmp_path):
    path = tmp_path / "odd.tfrecord"
    splits = np.arange(4) * DIM
    write_records(path, {IDS: (splits, np.arange(18)), VALUES: (splits // 2, np.ones(9, "f4"))})
    sources = {"paths": [files["sparse"][3], path]}
    named = r"odd\.tfrecord: record {} .*preprocess\.py"
    with pytest.raises(UserError, match=named.format(0)), damage_explained(**sources):
        to_numpy(read_batches(**sources, batch_size=100, targets=False))
    write_records(path, {DENSE: (np.array([0, DIM, DIM + 2]), np.ones(DIM + 2, "f4"))})
    buckets = tmp_path / "buckets.tfrecord"
    write_records(buckets, {BUCKETS: (np.arange(3), np.arange(2))})
    sources = {"paths": [buckets], "dense_paths": [path], "dense_dim": DIM}
    with pytest.raises(UserError, match=named.format(1)), damage_explained(**sources):
        to_numpy(read_batches(**sources, batch_size=100))


@pytest.mark.parametrize("missing", [1, 40])
def test_other_numbers_of_rows_or_files_are_an_error(files, tmp_path, missing):
    short = tmp_path / "short.tfrecord"
    count = ROWS_PER_FILE[0] - missing
    write_records(short, {DENSE: (np.arange(count + 1) * DIM, np.ones(count * DIM, "f4"))})
    with pytest.raises(UserError, match="other rows.*preprocess"):
        read_batches(files["buckets"][:1], 8, dense_paths=[short], dense_dim=DIM)
    with pytest.raises(ValueError, match="shorter"):
        read_batches(files["buckets"], 8, dense_paths=files["dense"][:-1], dense_dim=DIM)
