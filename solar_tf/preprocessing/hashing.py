"""Random sparse label vectors, feature hashing and the OR of labels (§3.1, §3.2).

A block of rows is ragged, in CSR form: row r owns `columns[splits[r]:splits[r + 1]]`.
Seeds are the chunk numbers unless a run's config says otherwise.
"""

import numpy as np

BLOCK = 1 << 13  # keys that are hashed together: they stay in the L1 cache
COLUMN_BITS = 32  # a (row, column) pair as one int64 key, so that sorting keys sorts within rows


def murmurhash3_32(keys, seed):
    """MurmurHash3 of int32 keys [n], signed: int32 [n], the same as scikit-learn's.

    Importing that takes a second, for every worker and every server that starts.
    """
    hashes = np.array(keys, np.int32).view(np.uint32)
    scratch = np.empty(min(len(hashes), BLOCK), np.uint32)
    for start in range(0, len(hashes), BLOCK):
        part = hashes[start : start + BLOCK]
        _murmur(part, np.uint32(seed), scratch[: len(part)])
    return hashes.view(np.int32)


def _murmur(h, seed, scratch):
    """In place: the one block of four bytes that a key has, and the end."""
    h *= np.uint32(0xCC9E2D51)
    _rotate(h, 15, scratch)
    h *= np.uint32(0x1B873593)
    h ^= seed
    _rotate(h, 13, scratch)
    h *= np.uint32(5)
    h += np.uint32(0xE6546B64)
    h ^= np.uint32(4)  # the length of a key in bytes
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h ^= np.right_shift(h, np.uint32(shift), out=scratch)
        h *= np.uint32(factor)


def _rotate(h, bits, scratch):
    np.right_shift(h, np.uint32(32 - bits), out=scratch)
    h <<= np.uint32(bits)
    h |= scratch


def hash_ids(ids, seed, size):
    """Labels to buckets (§3.1) or tokens to hashed features (§3.2), [n] ids to int32 [n]."""
    # The hash is signed; numpy's modulo, like Python's, takes the divisor's sign: never negative.
    return murmurhash3_32(np.asarray(ids, dtype=np.int32), seed=seed) % np.int32(size)


def label_buckets(num_labels, seed, num_buckets):
    """h_k(i), the one bucket of every label i in the chunk of this seed (§3.1). int32 [N]."""
    return hash_ids(np.arange(num_labels), seed, num_buckets)


def sparse_indices(buckets, num_buckets):
    """Places of the ones in the whole label vector of dimension D = BK (§3.1).

    `buckets` [..., K] holds a label's bucket in each chunk; chunk k is shifted by k * B.
    Returns int64 [..., K].
    """
    buckets = np.asarray(buckets, dtype=np.int64)
    return buckets + num_buckets * np.arange(buckets.shape[-1])


def hash_features(splits, hashed, values):
    """Feature hashing of a block of rows (§3.2): tokens that collide in a row are added up.

    `splits` [n + 1] are the rows, `hashed` [nnz] their tokens after `hash_ids`, and `values`
    [nnz] the tokens' values. Returns splits int64 [n + 1], hashed ids int32 ascending in each
    row, and their values float32.
    """
    keys, places = np.unique(_keys(splits, hashed), return_inverse=True)
    # bincount sums in float64 and in the order of the row: the same bits on every machine.
    sums = np.bincount(places, weights=values, minlength=len(keys))
    return *_rows(keys, len(splits) - 1), sums.astype(np.float32)


def or_targets(splits, buckets):
    """The OR of the true labels' vectors in one chunk (§3.2): a set union of buckets.

    `splits` [n + 1] are the rows, `buckets` [nnz] those of their true labels. Returns splits
    int64 [n + 1] and buckets int32, unique and ascending in each row: the few ones of the
    chunk's target of length B.
    """
    keys = np.sort(_keys(splits, buckets))
    # numpy.unique without indices goes through a hash table, ten times slower here.
    return _rows(keys[np.diff(keys, prepend=-1) > 0], len(splits) - 1)


def _keys(splits, columns):
    rows = np.repeat(np.arange(len(splits) - 1, dtype=np.int64), np.diff(splits))
    return rows << COLUMN_BITS | columns


def _rows(keys, num_rows):
    """The CSR form of sorted keys: splits int64 [num_rows + 1], columns int32."""
    starts = np.arange(num_rows + 1, dtype=np.int64) << COLUMN_BITS
    return np.searchsorted(keys, starts), (keys & ((1 << COLUMN_BITS) - 1)).astype(np.int32)
