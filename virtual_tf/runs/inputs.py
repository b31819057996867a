"""What is given to a finished model: examples like those that the run was trained on, or a sentence."""
import numpy as np

from virtual_tf.core.errors import VirtualTfError


def examples(x, outline):
    """x as an array [N, …] of the type and shape of the run's data; outline: a FederatedDataset without examples."""
    x, shape, kind = np.asarray(x), tuple(outline.input_shape), outline.train.x.dtype
    if x.dtype.kind not in 'biuf':
        raise VirtualTfError(f'x is of type {x.dtype}; give numbers')
    if x.shape == shape:
        raise VirtualTfError(f'x has the shape {x.shape} of one example; give a batch of them: x[np.newaxis]')
    if x.ndim == len(shape) + 1 == 2 and x.shape[1:] != shape:
        raise VirtualTfError(f'x has {x.shape[1]} features an example where the run\'s data has {shape[0]}; give the '
                             'same features in the same order')
    if x.shape[1:] != shape:
        raise VirtualTfError(f'x has the shape {x.shape} where the run\'s data has [N, {", ".join(map(str, shape))}]; '
                             'reshape it')
    if not len(x):
        raise VirtualTfError('x has no examples; give at least one')
    if x.dtype.kind == 'f' and not np.isfinite(x).all():
        row = np.flatnonzero(~np.isfinite(x).reshape(len(x), -1).all(axis=1))[0]
        raise VirtualTfError(f'example {row} of x has a number that is not finite; correct it, or leave it out')
    if kind.kind == 'i' and (x != np.rint(x)).any():
        raise VirtualTfError('x has numbers that are no ids; give whole numbers, as the run\'s data has')
    if kind.kind == 'i' and not (0 <= x.min() and x.max() < outline.num_classes):
        wrong = x.min() if x.min() < 0 else x.max()
        raise VirtualTfError(f'x has the id {wrong} where the run\'s data has 0 to {outline.num_classes - 1}; encode '
                             'it as that is')
    if kind.kind == 'f' and x.dtype == np.uint8:
        raise VirtualTfError(f'x is of type uint8 where the run\'s data is {kind}; scale it as that is, often x / 255')
    return x.astype(kind)


def labelled(x, y, outline):
    """(x, y) as arrays of the run's types and shapes; a negative y of a sequence is no target."""
    x, y = examples(x, outline), np.asarray(y)
    wanted = (len(x), *outline.train.y.shape[1:])
    if y.shape != wanted or y.dtype.kind not in 'biuf' or (y != np.rint(y)).any():
        raise VirtualTfError(f'y has the shape {y.shape} and type {y.dtype} where {len(x)} examples need whole numbers '
                             f'of shape {wanted}; give a label a target')
    if y.min() < (-1 if y.ndim > 1 else 0) or y.max() >= outline.num_classes:
        wrong = y.max() if y.max() >= outline.num_classes else y.min()
        raise VirtualTfError(f'y has the label {wrong} where the run\'s data has 0 to {outline.num_classes - 1}; '
                             'number the classes as there')
    if (y < 0).all():
        raise VirtualTfError('y has no target, only padding; give some')
    return x, y.astype(np.int32)
