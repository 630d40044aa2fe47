"""Labels that come and go after training, and fine-tuning on new rows."""

from solar_tf.catalogue.labels import add_labels, remove_labels

__all__ = ["add_labels", "remove_labels"]
