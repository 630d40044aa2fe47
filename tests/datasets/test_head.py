"""The beginning of a source."""

import pickle
import subprocess
import sys

from conftest import open_titles
from solar_tf.datasets.head import Head


def test_a_head_ends_after_its_blocks_and_parses_like_its_source(titles):
    source = open_titles(titles).train
    blocks = list(Head(source, 2).blocks(100))
    assert [len(source.parse(block)) for block in blocks] == [100, 100]
    assert Head(source, 2).parse(blocks[1]).texts == source.read().texts[100:200]


def test_a_worker_that_is_sent_a_head_loads_no_tensorflow(titles):
    """The stage's workers start in milliseconds, and so must those that are measured."""
    sent = pickle.dumps(Head(open_titles(titles).train, 1)).hex()
    program = "import pickle, sys; pickle.loads(bytes.fromhex(sys.argv[1])); "
    program += "sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program, sent]).returncode == 0
