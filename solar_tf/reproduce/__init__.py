"""The paper's tables on a dataset at hand: python -m solar_tf.reproduce --table 1."""
