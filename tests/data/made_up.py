"""Small files in the formats that the real ones are published in."""
import gzip
import io
import json
import zipfile

import h5py
import numpy as np

from virtual_tf.methods.registry import make_settings


def settings(dataset, **changes):
    return make_settings({'dataset': dataset, 'download': False} | changes)


def write_idx(path, values):
    """Gzipped idx: 0, 0, type, rank, then the shape and the values, big-endian."""
    code, dtype = (0x08, '>u1') if values.dtype == np.uint8 else (0x0C, '>i4')
    path.parent.mkdir(parents=True, exist_ok=True)
    content = bytes([0, 0, code, values.ndim]) + np.asarray(values.shape, '>i4').tobytes()
    path.write_bytes(gzip.compress(content + values.astype(dtype).tobytes()))


def write_mnist(root, train=200, test=100):
    """Digits in turn; pixel 0 of an image is its number, so that it can be told from the others."""
    for part, count in (('train', train), ('t10k', test)):
        images = np.zeros([count, 28, 28], np.uint8)
        images[:, 0, 0] = np.arange(count) % 256
        write_idx(root / 'mnist' / f'{part}-images-idx3-ubyte.gz', images)
        write_idx(root / 'mnist' / f'{part}-labels-idx1-ubyte.gz', (np.arange(count) % 10).astype(np.uint8))


def write_h5(path, clients):
    """TFF's layout: {client: {column: values}} under /examples."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, 'w') as file:
        for client, columns in clients.items():
            group = file.create_group(f'examples/{client}')
            for name, values in columns.items():
                group[name] = values


def zip_of(files):
    """The bytes of a zip archive with {path: content}."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, 'w') as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def text_of(values):
    """Rows of numbers as UCI and the sensor archive write them."""
    return ''.join(''.join(f' {value: .7e}' for value in row) + '\n' for row in np.atleast_2d(values))


def write_leaf(path, users, changes=None):
    """LEAF json of {user: (x, y)}."""
    content = {'users': list(users), 'num_samples': [len(y) for _, y in users.values()],
               'user_data': {user: {'x': x, 'y': y} for user, (x, y) in users.items()}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content | (changes or {})), encoding='utf-8')
