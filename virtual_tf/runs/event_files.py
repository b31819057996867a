"""TensorBoard's event files of a run that is continued: one curve, without the rounds that will be played again."""
import contextlib
import errno

import tensorflow as tf
from tensorboard.compat.proto.event_pb2 import Event

# What is written at the start and at the end of a run, by the first letters of its tag; a continued run writes it anew.
_ONCE = ('_hparams_/', 'max/', 'last_5/', 'final/', 'unseen/', 'pictures/', 'clients/snr_cdf')
_SCALAR = 'seconds'   # of every round


@contextlib.contextmanager
def disk_errors():
    """A full disk is an OSError here as it is elsewhere."""
    try:
        yield
    except tf.errors.OpError as error:
        raise OSError(errno.EIO, error.message) from error


@contextlib.contextmanager
def writing(writer, step):
    """The writer as default, with disk_errors."""
    with disk_errors(), writer.as_default(step=step):
        yield


def add_picture(folder, tag, picture, step):
    """A PNG file as an image of the run's events."""
    writer = tf.summary.create_file_writer(str(folder))
    with writing(writer, step):
        tf.summary.image(tag, tf.io.decode_png(picture.read_bytes())[tf.newaxis])
    with disk_errors():
        writer.close()


def trim(folder, last):
    """Leaves the events of rounds up to `last`; returns the rounds that have them."""
    rounds = set()
    for path in sorted(folder.glob('events.out.tfevents.*')):
        kept = [(record, event) for record in _records(path)
                if _belongs(event := Event.FromString(record), last)]
        rounds |= {event.step for _, event in kept for value in event.summary.value if value.tag == _SCALAR}
        temporary = path.with_name(f'trimmed.{path.name}')
        with disk_errors(), tf.io.TFRecordWriter(str(temporary)) as writer:
            for record, _ in kept:
                writer.write(record)
        if any(event.HasField('summary') for _, event in kept):
            temporary.replace(path)
        else:
            temporary.unlink()
            path.unlink()
    return rounds


def scalars(folder):
    """{round: {metric: value}} that the events of a run have."""
    found = {}
    for path in sorted(folder.glob('events.out.tfevents.*')):
        for event in map(Event.FromString, _records(path)):
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == 'scalars' and not value.tag.startswith(_ONCE):
                    found.setdefault(event.step, {})[value.tag] = float(tf.make_ndarray(value.tensor))
    return {number: row for number, row in found.items() if _SCALAR in row}


def _belongs(event, last):
    return event.step <= last and not any(value.tag.startswith(_ONCE) for value in event.summary.value)


def _records(path):
    """Those that are whole: a process that is killed leaves half of one at the end."""
    try:
        for record in tf.data.TFRecordDataset(str(path)):
            yield record.numpy()
    except tf.errors.DataLossError:
        return
