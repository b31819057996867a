"""Layers as functions of their weights; one file a family."""
from virtual_tf.networks.layers.base import Layer, draw, is_gaussian, over_units, sizes
from virtual_tf.networks.layers.dense import Dense, dense
from virtual_tf.networks.layers.image import Conv2D, Flatten, MaxPool, conv2d
from virtual_tf.networks.layers.sequence import LSTM, Embedding, recur

__all__ = ['LSTM', 'Conv2D', 'Dense', 'Embedding', 'Flatten', 'Layer', 'MaxPool', 'conv2d', 'dense', 'draw',
           'is_gaussian', 'over_units', 'recur', 'sizes']
