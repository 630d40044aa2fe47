"""The beginning of a source: what a cost model reads of a large file.

Worker processes read it, so it lives above TensorFlow.
"""

import itertools
from dataclasses import dataclass

from solar_tf.datasets.source import Source


@dataclass(frozen=True)
class Head:
    """The first blocks of a source, otherwise like it."""

    source: Source
    num_blocks: int
    num_rows = None

    def blocks(self, rows_per_block):
        return itertools.islice(self.source.blocks(rows_per_block), self.num_blocks)

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "source"), name)
