"""Words of titles: one tokenizer for training and queries, and the vocabulary."""

import re
import unicodedata
from collections import Counter, defaultdict
from itertools import repeat

import numpy as np

from solar_tf.datasets.source import fail, merge_duplicates
from solar_tf.datasets.streams import numbered_lines
from solar_tf.run.files import atomic_write
from solar_tf.runtime.ragged import row_splits

_WORDS = re.compile(r"\w+")  # letters and digits of any script, and underscores
_WORDS_AND_ENDS = re.compile(r"\w+|\n")
REMEDY = "run preprocess.py again"
_DOCUMENTS = "#documents"  # `#` cannot be part of a word

UNKNOWN, END = -1, -2  # ids of words out of the vocabulary, and of the end of a text


def _normalize(text):
    """NFKC: letters composed with their accents, since a separate accent would split a word."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def _words(text, pattern):
    return pattern.findall(text.lower().replace("_", " "))


def tokenize(text):
    """The words of a text: lower-case runs of letters and digits of any script."""
    return _words(_normalize(text), _WORDS)


def _token_ids(texts, look_up):
    """Ids of the words of all texts, and the row of each: two int64 arrays of equal length.

    `look_up` maps a list of words, among them newlines with the id END, to ids. One pass over
    all texts joined is several times as fast as a pass over each.
    """
    joined = "\n".join(map(_normalize, texts))
    if joined.count("\n") >= max(len(texts), 1):  # some text has several lines
        joined = "\n".join(_normalize(text).replace("\n", " ") for text in texts)
    tokens = _words(joined, _WORDS_AND_ENDS)
    ids = np.fromiter(look_up(tokens), np.int64, len(tokens))
    ends = ids == END
    return ids[~ends], np.cumsum(ends)[~ends]


def count_tokens(texts):
    """Document frequencies: Counter of the number of texts in which each word occurs."""
    index = defaultdict(None, {"\n": END})
    index.default_factory = index.__len__  # words get the ids 1, 2, ... as they come
    ids, rows = _token_ids(texts, lambda tokens: map(index.__getitem__, tokens))
    keys = np.sort(rows << 32 | ids)
    once = keys[np.diff(keys, prepend=-1) > 0]  # a word counts once in a text
    frequencies = np.bincount(once & 0xFFFFFFFF, minlength=len(index)).tolist()
    counts = Counter(dict(zip(index, frequencies, strict=True)))
    del counts["\n"]
    return counts


def count_words(texts):
    """The number of words of each text, repeated ones included: int64 [n]."""
    _, rows = _token_ids(texts, lambda tokens: (END if t == "\n" else 0 for t in tokens))
    return np.bincount(rows, minlength=len(texts))


class Vocabulary:
    """Words and the number of training texts with each, most frequent first.

    Words of equal frequency are in code point order, so that the ids depend on nothing
    but the texts.
    """

    def __init__(self, words, frequencies, num_documents):
        self.words = words  # [V] str
        self.frequencies = np.asarray(frequencies, np.int64)  # [V]
        self.num_documents = num_documents
        self._ids = {word: i for i, word in enumerate(words)} | {"\n": END}

    @classmethod
    def from_counts(cls, counts, num_documents, min_count=1, max_size=None):
        """Keep the words of a Counter with `min_count` texts or more, at most `max_size`."""
        kept = [item for item in counts.items() if item[1] >= min_count]
        kept.sort(key=lambda item: (-item[1], item[0]))
        words, frequencies = zip(*kept[:max_size], strict=True) if kept else ((), ())
        return cls(list(words), frequencies, num_documents)

    def __len__(self):
        return len(self.words)

    def sequences(self, texts):
        """The words of each text in their order: splits int64 [n + 1], ids int32.

        Words out of the vocabulary are dropped.
        """
        ids, rows = _token_ids(texts, lambda tokens: map(self._ids.get, tokens, repeat(UNKNOWN)))
        known = ids != UNKNOWN
        counts = np.bincount(rows[known], minlength=len(texts))
        return row_splits(counts), ids[known].astype(np.int32)

    def encode(self, texts):
        """Bags of words as CSR: splits int64 [n + 1], ids int32 and counts float32.

        Ids are sorted and unique within a text; words out of the vocabulary are dropped.
        """
        return bags(*self.sequences(texts))

    def save(self, path):
        """Write a line `word<TAB>frequency` per word, after one with the number of texts."""
        with atomic_write(path, "w") as file:
            file.write(f"{_DOCUMENTS}\t{self.num_documents}\n")
            file.writelines(
                f"{word}\t{count}\n"
                for word, count in zip(self.words, self.frequencies.tolist(), strict=True)
            )

    @classmethod
    def load(cls, path):
        """Read what `save` wrote."""
        path = str(path)
        words, frequencies = [], []
        for line, text in numbered_lines(path):
            word, _, count = text.partition("\t")
            if not (word and count.isascii() and count.isdigit() and len(count) < 19):
                fail(path, line, "not a word, TAB and its frequency", REMEDY)
            words.append(word)
            frequencies.append(int(count))
        if words[0] != _DOCUMENTS:
            fail(path, 1, f"does not start with {_DOCUMENTS}", REMEDY)
        if len(set(words)) < len(words):
            fail(path, None, "a word occurs twice", REMEDY)
        return cls(words[1:], frequencies[1:], frequencies[0])


def bags(splits, ids):
    """Sequences of words as bags: splits, sorted ids and counts float32."""
    return merge_duplicates(splits, ids, np.ones(len(ids), np.float32))[:3]
