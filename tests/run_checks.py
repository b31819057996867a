"""What a run has written, read back and compared."""
import collections
import json

import numpy as np
import tensorflow as tf
from tensorboard.compat.proto.event_pb2 import Event

from virtual_tf.runs import event_files
from virtual_tf.simulator import checkpoints, client_store

TIMES = ('seconds', 'seconds_evaluation')


def metrics(folder):
    lines = (folder / 'metrics.jsonl').read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in TIMES} for line in lines]


def final_state(folder):
    """Every array of the last checkpoint and of the clients that it names."""
    found = checkpoints.Checkpoints(folder / 'checkpoints').newest()
    clients = {i: client_store._read_file(folder / 'checkpoints' / 'clients', i, version)
               for i, version in sorted(found.manifest.items())}
    return found.round, found.server, found.scores, clients


def assert_same_run(first, second):
    assert metrics(first) == metrics(second)
    states = [tf.nest.flatten(final_state(folder)) for folder in (first, second)]
    assert len(states[0]) == len(states[1])
    for a, b in zip(*states):
        assert np.array_equal(a, b, equal_nan=True)     # a method without S has no number for it


def assert_one_curve(folder, rounds):
    """Each round has each scalar once, in whatever file."""
    points = collections.Counter((value.tag, event.step) for path in folder.glob('events.out.tfevents.*')
                                 for event in map(Event.FromString, event_files._records(path))
                                 for value in event.summary.value)
    assert set(points.values()) == {1}
    for tag in ('server/accuracy', 'mt/cross_entropy', 'train/loss'):
        assert sorted(step for name, step in points if name == tag) == list(range(1, rounds + 1))
    assert sorted(step for name, step in points if name == 'final/server/accuracy') == [rounds]
    return points
