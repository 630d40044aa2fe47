"""Numba kernels of the synthetic data: rows whose words name their labels, and their bytes.

Every random number is a hash of the seed, a stream, the row and the place of the number in it:
row i is the same whatever is made before it, beside it or after it.
"""

import numpy as np

from solar_tf.runtime.compiled import compiled

TRAIN, TEST, LABEL_WORDS, VECTORS = range(4)  # streams
WORDS_PER_LABEL = 3  # words that belong to a label
SHOWN_WORDS = 2  # of them, where a label shows in a row
MOST_LABELS = 64  # of a row
# Where the numbers of a row are: one for its size, then a stretch for each use.
PICKED, SHOWN, WORD, NOISE = (np.uint64(64 + (i << 10)) for i in range(4))

CONSONANTS = np.frombuffer(b"bcdfghjklmnprstvwxyz", np.uint8)
VOWELS = np.frombuffer(b"aeiou", np.uint8)
SYLLABLES = len(CONSONANTS) * len(VOWELS)
COMMA, TAB, SPACE, NEWLINE, COLON, ZERO = np.frombuffer(b",\t \n:0", np.uint8)


@compiled
def _mix(x):
    """The finalizer of splitmix64: every bit of x reaches every bit of the result."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def _bits(seed, stream, index, place):
    x = _mix(np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(stream))
    x = _mix(x + np.uint64(index) * np.uint64(0xD1342543DE82EF95))
    return _mix(x + np.uint64(place) * np.uint64(0x9E3779B97F4A7C15))


@compiled
def _uniform(seed, stream, index, place):
    """In [0, 1)."""
    return np.float64(_bits(seed, stream, index, place) >> np.uint64(11)) * 2.0**-53


@compiled
def _power_law(uniform, size, exponent, shift):
    """A rank below `size`, whose probability falls as (rank + shift)^-exponent, exponent < 1."""
    low, high = shift ** (1 - exponent), (size + shift) ** (1 - exponent)
    rank = np.int64((low + uniform * (high - low)) ** (1 / (1 - exponent)) - shift)
    return min(max(rank, 0), size - 1)


@compiled
def _label_word(seed, label, which, num_words, exponent):
    """A word that belongs to a label; frequent words belong to many."""
    return _power_law(_uniform(seed, LABEL_WORDS, label, which), num_words, exponent, 10.0)


@compiled
def label_words(seed, first, num_words, exponent, words):
    """The words of the labels from `first` on: fills words [n, WORDS_PER_LABEL]."""
    for i in range(len(words)):
        for which in range(WORDS_PER_LABEL):
            words[i, which] = _label_word(seed, first + i, which, num_words, exponent)


@compiled
def plant_rows(
    seed, stream, first, num_labels, num_words, labels_per_row, hidden, noise_words,
    label_exponent, word_exponent, stride,
    label_splits, labels, shown, word_splits, words,
):  # fmt: skip
    """The rows from `first` on: their labels, which of them show, and their words.

    Fills label_splits and word_splits [n + 1], and the other arrays as far as needed.
    """
    decay = np.log(1 - 1 / labels_per_row) if labels_per_row > 1 else -np.inf
    for i in range(len(label_splits) - 1):
        row, start, end = first + i, label_splits[i], label_splits[i]
        size = 1 + np.int64(np.log(1 - _uniform(seed, stream, row, 0)) / decay)
        for j in range(min(size, MOST_LABELS)):
            picked = _uniform(seed, stream, row, PICKED + np.uint64(j))
            rank = _power_law(picked, num_labels, label_exponent, 5.0)
            label = rank * stride % num_labels  # so that frequent labels are spread over the ids
            at = end
            while at > start and labels[at - 1] > label:
                at -= 1
            if at > start and labels[at - 1] == label:
                continue
            labels[at + 1 : end + 1] = labels[at:end].copy()
            labels[at] = label
            end += 1
        label_splits[i + 1] = end
        at = word_splits[i]
        for j in range(start, end):
            place = np.uint64(j - start)
            shown[j] = _uniform(seed, stream, row, SHOWN + place) >= hidden
            if shown[j]:
                left_out = _bits(seed, stream, row, WORD + place) % np.uint64(WORDS_PER_LABEL)
                for k in range(SHOWN_WORDS):
                    which = (np.int64(left_out) + 1 + k) % WORDS_PER_LABEL
                    words[at] = _label_word(seed, labels[j], which, num_words, word_exponent)
                    at += 1
        for j in range(noise_words):
            noise = _uniform(seed, stream, row, NOISE + np.uint64(j))
            words[at] = _power_law(noise, num_words, word_exponent, 10.0)
            at += 1
        word_splits[i + 1] = at


# The bytes of files. Each kernel fills `out`, which must be long enough, and returns how far.


@compiled
def _put_number(out, at, number):
    end, rest = at + 1, number
    while rest >= 10:
        rest //= 10
        end += 1
    for place in range(end - 1, at - 1, -1):
        out[place] = ZERO + number % 10
        number //= 10
    return end


@compiled
def _put_word(out, at, word):
    """A word that can be spoken: 0 is `ba`, 100 `baba`; no two are the same."""
    while True:
        syllable = word % SYLLABLES
        out[at] = CONSONANTS[syllable // len(VOWELS)]
        out[at + 1] = VOWELS[syllable % len(VOWELS)]
        at += 2
        word = word // SYLLABLES - 1
        if word < 0:
            return at


@compiled
def _put_labels(out, at, row, splits, labels):
    """`label,label`; nothing where there are no labels at all."""
    if len(splits) == 0:
        return at
    for i in range(splits[row], splits[row + 1]):
        if i > splits[row]:
            out[at] = COMMA
            at += 1
        at = _put_number(out, at, labels[i])
    return at


@compiled
def put_titles(label_splits, labels, word_splits, words, out):
    """Lines `label,label<TAB>word word`; without labels at all just the words."""
    at = 0
    for i in range(len(word_splits) - 1):
        if len(label_splits):
            at = _put_labels(out, at, i, label_splits, labels)
            out[at] = TAB
            at += 1
        for j in range(word_splits[i], word_splits[i + 1]):
            if j > word_splits[i]:
                out[at] = SPACE
                at += 1
            at = _put_word(out, at, words[j])
        out[at] = NEWLINE
        at += 1
    return at


@compiled
def put_bags(label_splits, labels, word_splits, words, out):
    """Lines `label,label word:count word:count`, the words as numbers, ascending.

    Without labels at all just `word:count word:count`.
    """
    at = 0
    for i in range(len(word_splits) - 1):
        line = at
        at = _put_labels(out, at, i, label_splits, labels)
        ordered = np.sort(words[word_splits[i] : word_splits[i + 1]])
        start = 0
        for j in range(1, len(ordered) + 1):
            if j == len(ordered) or ordered[j] != ordered[start]:
                if at > line:
                    out[at] = SPACE
                    at += 1
                at = _put_number(out, at, ordered[start])
                out[at] = COLON
                at = _put_number(out, at + 1, j - start)
                start = j
        out[at] = NEWLINE
        at += 1
    return at


@compiled
def put_vectors(seed, word_splits, words, out):
    """The sum of the words' random vectors of signs, scaled to length 1: fills out [n, d]."""
    width = out.shape[1]
    for i in range(len(out)):
        out[i] = 0
        for j in range(word_splits[i], word_splits[i + 1]):
            for k in range(width):
                if k % 64 == 0:
                    bits = _bits(seed, VECTORS, words[j], k // 64)
                out[i, k] += 1 if (bits >> np.uint64(k % 64)) & np.uint64(1) else -1
        length = np.sqrt(np.sum(out[i] * out[i]))
        if length > 0:
            out[i] /= length
