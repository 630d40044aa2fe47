"""Tokens, document frequencies and bags of words, against one text at a time."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solar_tf.datasets.vocabulary import Vocabulary, count_tokens, tokenize

from .files import assert_refused, write

texts = st.lists(st.text(st.sampled_from("aAbB_ 1Σςé\u0301\n\t.,ßİ"), max_size=15), max_size=8)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The C++ Programming_Language, 4th ed.", "the c programming language 4th ed"),
        ("Älä lyö!  naïve cafe\u0301", "älä lyö naïve café"),
        ("Война и мир: 戦争と平和", "война и мир 戦争と平和"),
        ("ﬁne №7", "fine no7"),
        (" _ -- ", ""),
        ("", ""),
    ],
)
def test_tokens_are_words_of_any_script(text, words):
    assert tokenize(text) == words.split()


@settings(deadline=None)
@given(texts=texts)
def test_document_frequencies_count_a_word_once_in_a_text(texts):
    expected = Counter(word for text in texts for word in set(tokenize(text)))
    assert count_tokens(texts) == expected


@settings(deadline=None)
@given(texts=texts, known=st.sets(st.sampled_from(["a", "b", "ab", "1", "é", "ß", "a\u03c2"])))
def test_texts_become_sequences_and_counts_of_their_known_words(texts, known):
    vocabulary = Vocabulary.from_counts(dict.fromkeys(known, 1), 5)
    splits, sequences = vocabulary.sequences(texts)
    bag_splits, ids, counts = vocabulary.encode(texts)
    assert {array.dtype for array in (splits, bag_splits)} == {np.dtype(np.int64)}
    assert {array.dtype for array in (sequences, ids)} == {np.dtype(np.int32)}
    assert counts.dtype == np.float32
    assert len(splits) == len(bag_splits) == len(texts) + 1
    for row, text in enumerate(texts):
        expected = [word for word in tokenize(text) if word in known]
        found = sequences[splits[row] : splits[row + 1]]
        assert [vocabulary.words[i] for i in found] == expected
        span = slice(bag_splits[row], bag_splits[row + 1])
        words = [vocabulary.words[i] for i in ids[span]]
        assert dict(zip(words, counts[span], strict=True)) == Counter(expected)
        assert ids[span].tolist() == sorted(ids[span])


def test_order_is_by_frequency_then_word():
    counts = Counter({"b": 2, "a": 2, "z": 9, "rare": 1})
    assert Vocabulary.from_counts(counts, 9).words == ["z", "a", "b", "rare"]
    assert Vocabulary.from_counts(counts, 9, min_count=2).words == ["z", "a", "b"]
    vocabulary = Vocabulary.from_counts(counts, 9, max_size=2)
    assert (vocabulary.words, vocabulary.frequencies.tolist()) == (["z", "a"], [9, 2])


@settings(deadline=None)
@given(texts=texts)
def test_save_and_load(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("vocabulary") / "words.txt"
    saved = Vocabulary.from_counts(count_tokens(texts), len(texts))
    saved.save(path)
    loaded = Vocabulary.load(path)
    assert (loaded.words, loaded.num_documents) == (saved.words, len(texts))
    assert loaded.frequencies.tolist() == saved.frequencies.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("word\t3\n", ":1: does not start with #documents"),
        ("#documents\t3\nword\n", ":2: not a word, TAB and its frequency: run preprocess.py again"),
        ("#documents\t3\nword\tx\n", ":2: not a word"),
        ("#documents\t3\nword\t1\nword\t1\n", "a word occurs twice"),
    ],
)
def test_a_damaged_vocabulary_is_an_error(tmp_path, text, message):
    assert_refused(message, Vocabulary.load, write(tmp_path, text))
