"""What travels, and the checks of what arrives. Updates are bytes (encoding.py), all else is JSON.

    Introduction    a client → server, once: who it is and what its data looks like
    Instruction     server → a client of the round: the server's state, and what it has applied of the client's
    Reply           back: the delta, and how training and evaluation went
    Failure         in place of a reply that did not come, or that was refused
"""
import math
from typing import NamedTuple

import numpy as np

from virtual_tf.core import encoding
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.deploy.protocol import Order
from virtual_tf.methods.interface import WeighedDelta

SPLITS = {'train', 'test', 'validation'}
MOST = 10 ** 8       # clients, examples or targets that a number may stand for
DETAILS = 50         # figures of a client's training, beside loss and accuracy


class Introduction(NamedTuple):
    client: int           # number in the federation, 0 to K − 1
    name: str
    input_shape: list
    input_type: str
    target_shape: list    # [] or [L] for sequences
    num_classes: int
    sizes: dict           # {split: (examples, targets)}


class Instruction(NamedTuple):
    run: str              # id of the run: a client keeps a folder for each
    number: int           # of the round
    order: Order          # its shrink is bytes, empty before the first head
    weight: float         # w_i
    step: float           # how much of its delta the client sends, as Cohort has it
    num_classes: int
    settings: dict
    scores_server: bool   # the server has no data to test its model on, so the client does
    secure: bool          # the delta goes in whole steps (units.py)
    server: bytes


class Reply(NamedTuple):
    client: int
    version: int
    accepted: bool        # False: the training gave numbers that are not finite, there is no delta
    report: dict          # loss, accuracy, details, scores {model and split: {metric: its sums}}
    delta: bytes


class Failure(NamedTuple):
    kind: str             # failed, late or refused: what the metrics count
    reason: str


class RefusedError(VirtualTfError):
    """A reply that must not enter the server's state."""


def encode_shrink(shrink):
    """r as bytes: 1 − r, which is zero nearly everywhere."""
    return encoding.encode({name: 1.0 - np.asarray(r) for name, r in shrink.items()}) if shrink else b''


def decode_shrink(data, server):
    """The inverse, for a server's state of this structure."""
    if not data:
        return {}
    like = {name: value[0] for name, value in server.items()}
    return {name: 1.0 - value for name, value in encoding.decode(data, like).items()}


def read_delta(reply, instruction, introduction, like, server, norm_bound):
    """The delta of a reply, decoded, or RefusedError; `like` is a delta that changes nothing."""
    if (reply.client, reply.version) != (introduction.client, instruction.order.version):
        raise RefusedError(f'it answers version {reply.version} as client {reply.client}, asked was version '
                           f'{instruction.order.version} of client {introduction.client}')
    try:
        delta = encoding.decode(reply.delta, like)
    except encoding.EncodingError as error:
        raise RefusedError(str(error)) from error
    examples = introduction.sizes['train'][1]
    if isinstance(delta, WeighedDelta) and delta.size != examples:
        raise RefusedError(f'its delta counts {float(delta.size):g} examples, the client has {examples}')
    norm = relative_norm(delta, server)
    if norm > norm_bound:
        raise RefusedError(f'its delta has {norm:.3g} times the norm of the server\'s state, norm_bound is '
                           f'{norm_bound:g}')
    return delta


def check_introduction(introduction):
    """Refuses numbers that the server would trip over or drown in."""
    def count(value, low, high):
        return type(value) is int and low <= value <= high
    shapes = [*introduction.input_shape, *introduction.target_shape]
    sizes = introduction.sizes
    if not (count(introduction.client, 0, MOST) and isinstance(introduction.name, str) and len(introduction.name) < 200
            and len(shapes) <= 8 and all(count(side, 1, 10 ** 6) for side in shapes)
            and count(introduction.num_classes, 1, 10 ** 6) and {'train', 'test'} <= {*sizes} <= SPLITS
            and all(len(pair) == 2 and count(pair[0], 1, MOST) and count(pair[1], 1, MOST) for pair in sizes.values())
            and np.dtype(introduction.input_type).kind in 'fiu'):
        raise RefusedError('it introduces itself with values that no data has')


def check_report(report, expected):
    """Refuses what would spoil the metrics; expected: {model and split: {metric: shape of its sums}}."""
    try:
        numbers = [report['loss'], report['accuracy'], *report['details'].values()]
        finite = all(isinstance(value, int | float) and math.isfinite(value) for value in numbers)
        missing = [model for model, shapes in expected.items() if {*shapes} - {*report['scores'].get(model, ())}]
        for model, shapes in expected.items():
            for metric in {*shapes} & {*report['scores'].get(model, ())}:
                sums = np.array(report['scores'][model][metric])
                if sums.shape != shapes[metric] or sums.dtype.kind not in 'if':
                    raise ValueError(f'{metric} of {model} has shape {sums.shape} and type {sums.dtype}')
                finite = finite and bool(np.isfinite(sums).all())
        names = len(report['details']) <= DETAILS and all(len(name) <= 64 for name in report['details'])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RefusedError(f'its report is malformed: {error!r:.300}') from error
    if not finite:
        raise RefusedError('its report has values that are not finite numbers')
    if missing:
        raise RefusedError(f'its report lacks the scores {", ".join(sorted(missing))}')
    if not names:
        raise RefusedError(f'its report has more than {DETAILS} details, or longer names than 64 letters')


def relative_norm(delta, server):
    """Largest ratio, over the kinds of values, of a delta's Euclidean norm to that of the server's state."""
    scale = 1.0
    if isinstance(delta, WeighedDelta):     # it counts every example once
        scale, delta = max(float(delta.size), 1.0), delta.weighted
    sent, held = (list(encoding.flatten(message).values()) for message in (delta, server))
    kinds = range(len(held[0]) if held else 0)     # a server may have no state at all
    return max((_norm(arrays[kind] for arrays in sent) / scale / max(_norm(arrays[kind] for arrays in held), 1e-30)
                for kind in kinds), default=0.0)


def _norm(arrays):
    return math.sqrt(sum(float(np.sum(np.square(array, dtype=np.float64))) for array in arrays))
