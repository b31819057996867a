"""Federated methods: what one is (interface), all by name (registry), one file each. Importing this registers them."""
from virtual_tf.methods import (
    barycentre,
    ditto,
    fedavg,
    fedivon,
    fedper,
    fedprox,
    fedrep,
    local,
    pfedbayes,
    pfedme,
    virtual,
)

__all__ = ['barycentre', 'ditto', 'fedavg', 'fedivon', 'fedper', 'fedprox', 'fedrep', 'local', 'pfedbayes', 'pfedme',
           'virtual']
