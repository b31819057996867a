"""Makes virtual_tf/data/watch.npz from the recordings that seglearn 1.2.5 carries (pip install seglearn==1.2.5).

    python -m scripts.make_watch --recordings=…/site-packages/seglearn/data/watch_dataset.npy

Windows of 3 s do not overlap, and the last quarter of each recording is test data, so no test window shares a sample
with a training window. Features are standardised by the training windows of all clients.
"""
import pathlib

import numpy as np
from absl import app, flags

WINDOW = 150   # samples at 50 Hz
RATE = 50.0
TEST_SHARE = 0.25
FEATURES = ('mean', 'deviation', 'minimum', 'maximum', 'mean step', 'mean crossings', 'interquartile range',
            'dominant frequency')

_RECORDINGS = flags.DEFINE_string('recordings', None, 'path of watch_dataset.npy', required=True)


def features(window):
    """[samples, channels] → [channels · len(FEATURES)]"""
    centred = window - window.mean(axis=0)
    spectrum = np.abs(np.fft.rfft(centred, axis=0))
    quartiles = np.percentile(window, (25, 75), axis=0)
    columns = (window.mean(axis=0), window.std(axis=0), window.min(axis=0), window.max(axis=0),
               np.abs(np.diff(window, axis=0)).mean(axis=0), (np.diff(np.sign(centred), axis=0) != 0).mean(axis=0),
               quartiles[1] - quartiles[0], np.fft.rfftfreq(len(window), 1 / RATE)[spectrum.argmax(axis=0)])
    return np.stack(columns, axis=1).ravel()


def main(_):
    recordings = np.load(_RECORDINGS.value, allow_pickle=True).item()
    rows, labels, subjects, sides, is_test = [], [], [], [], []
    for signal, label, subject, side in zip(*(recordings[key] for key in ('X', 'y', 'subject', 'side'))):
        count = len(signal) // WINDOW
        for i in range(count):
            rows.append(features(signal[i * WINDOW:(i + 1) * WINDOW]))
            labels.append(label), subjects.append(subject), sides.append(side)
            is_test.append(i >= count - max(1, round(TEST_SHARE * count)))
    x, is_test = np.asarray(rows), np.asarray(is_test)
    x = (x - x[~is_test].mean(axis=0)) / x[~is_test].std(axis=0)
    path = pathlib.Path(__file__).parent.parent / 'virtual_tf' / 'data' / 'watch.npz'
    np.savez_compressed(
        path, x=x.astype(np.float32), y=np.asarray(labels, np.int32), subject=np.asarray(subjects, np.int32),
        side=np.asarray(sides, np.int32), is_test=is_test, classes=np.asarray(recordings['y_labels']),
        features=np.asarray([f'{channel} {name}' for channel in recordings['X_labels'] for name in FEATURES]))
    print(f'{path}: {len(x)} windows, {is_test.sum()} of them test, {path.stat().st_size / 1024:.0f} KiB')


if __name__ == '__main__':
    app.run(main)
