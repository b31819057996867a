"""Federated methods: what one is (interface), all by name (registry), one file each. Importing this registers them."""
from virtual_tf.methods import fedavg, fedprox, virtual

__all__ = ['fedavg', 'fedprox', 'virtual']
