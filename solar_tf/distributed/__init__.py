"""The stages on many machines, with Ray (extra `ray`): docs/distributed.md.

`connect` gives a Cluster, which `workers.run_tasks` takes in the place of a number of
processes; so preprocessing and training need no code of their own for it.
"""

from solar_tf.distributed.cluster import Cluster, connect

__all__ = ["Cluster", "connect"]
