"""Federated methods, by the names that --method takes."""
from virtual_tf.algorithms.fedavg import fedavg
from virtual_tf.algorithms.fedprox import fedprox
from virtual_tf.algorithms.virtual import virtual

ALGORITHMS = {'virtual': virtual, 'fedavg': fedavg, 'fedprox': fedprox}
