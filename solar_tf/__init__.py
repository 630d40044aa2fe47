"""SOLAR: Sparse Orthogonal Learned and Random Embeddings, in TensorFlow."""

__version__ = "0.1.0"
