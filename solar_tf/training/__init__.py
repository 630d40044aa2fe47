"""Stage 2 (§3.2): a Keras model for each chunk, trained for itself."""
