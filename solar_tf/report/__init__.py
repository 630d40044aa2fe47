"""A run, or a whole reproduction, as one self-contained page: python -m solar_tf.report RUN."""
