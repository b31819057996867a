import pytest
import tensorflow as tf
from tensorboard.compat.proto.event_pb2 import Event
from toys import make_settings

from virtual_tf.runs import event_files, hooks


def write(folder, steps, extra=()):
    writer = tf.summary.create_file_writer(str(folder))
    with writer.as_default():
        for step in steps:
            tf.summary.scalar('seconds', 1.0, step=step)
            tf.summary.histogram('weights', [1.0, 2.0], step=step)
        for tag in extra:
            tf.summary.scalar(tag, 1.0, step=0)
    writer.close()


def logged(folder):
    return sorted((event.step, value.tag) for path in folder.glob('events.out.tfevents.*')
                  for event in map(Event.FromString, event_files._records(path)) for value in event.summary.value)


def test_later_rounds_and_what_is_written_once_go(tmp_path):
    write(tmp_path, range(1, 6), extra=('_hparams_/x', 'max/server/accuracy', 'final/server/accuracy', 'maximum'))
    assert event_files.trim(tmp_path, 3) == {1, 2, 3}
    assert logged(tmp_path) == [(0, 'maximum')] + [(step, tag) for step in (1, 2, 3) for tag in ('seconds', 'weights')]


def test_a_file_without_a_round_that_stays_goes_altogether(tmp_path):
    write(tmp_path, (1, 2))
    before = set(tmp_path.iterdir())
    write(tmp_path, (3, 4))
    assert event_files.trim(tmp_path, 2) == {1, 2}
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize('cut', [1, 5, 40])
def test_half_a_record_at_the_end_hurts_nobody(tmp_path, cut):
    write(tmp_path, range(1, 6))
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:-cut])
    assert {1, 2, 3, 4} <= event_files.trim(tmp_path, 5)
    write(tmp_path, [6])
    assert (6, 'seconds') in logged(tmp_path) and (4, 'weights') in logged(tmp_path)


def test_nothing_is_left_of_a_run_that_starts_again(tmp_path):
    write(tmp_path, (1, 2))
    assert event_files.trim(tmp_path, 0) == set() and not list(tmp_path.iterdir())


def full_disk(*_):
    raise tf.errors.ResourceExhaustedError(None, None, 'No space left on device')


def test_a_full_disk_is_an_oserror_whoever_writes(tmp_path, monkeypatch):
    write(tmp_path, (1, 2))
    hook = hooks.TensorBoard(tmp_path, make_settings())
    hook._writer.flush()
    monkeypatch.setattr(hook._writer, 'close', full_disk)
    with pytest.raises(OSError, match='No space left'):
        hook.close()
    monkeypatch.setattr(tf.io.TFRecordWriter, 'write', full_disk)
    with pytest.raises(OSError, match='No space left'):
        event_files.trim(tmp_path, 2)
