"""Datasets: one reader per format behind one small interface, vocabulary, cards."""

from solar_tf.datasets.formats import FORMATS, open_source
from solar_tf.datasets.source import Block, Rows, Source, concatenate
from solar_tf.datasets.titles import read_label_titles

__all__ = ["FORMATS", "Block", "Rows", "Source", "concatenate", "open_source", "read_label_titles"]
