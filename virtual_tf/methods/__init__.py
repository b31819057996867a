"""Federated methods, by the names that --method takes."""
from virtual_tf.methods.fedavg import fedavg
from virtual_tf.methods.fedprox import fedprox
from virtual_tf.methods.virtual.method import virtual

ALGORITHMS = {'virtual': virtual, 'fedavg': fedavg, 'fedprox': fedprox}
