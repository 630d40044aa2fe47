"""SOLAR: Sparse Orthogonal Learned and Random Embeddings, in TensorFlow."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solar_tf.api import Hit, Solar

__version__ = "0.1.0"
__all__ = ["Hit", "Solar", "__version__"]


def __getattr__(name: str) -> Any:
    """Load the API when it is asked for: workers import this package, and must start fast."""
    if name in ("Hit", "Solar"):
        from solar_tf import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
