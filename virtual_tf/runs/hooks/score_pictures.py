"""The clients' scores at the end of a run, as a file and as pictures."""
from virtual_tf.runs import event_files, final_scores, score_pictures
from virtual_tf.runs.hooks.base import Hook


class ScorePictures(Hook):
    """scores.npz, reliability.png and clients.png, the pictures in TensorBoard too."""

    def __init__(self, folder, state, label, title):
        self._folder, self._state, self._label, self._title = folder, state, label, title

    def on_end(self, summary):
        final_scores.save(self._folder, self._state.scores)
        score_pictures.draw({self._label: [final_scores.load(self._folder)]}, self._folder, self._title)
        for name in (score_pictures.RELIABILITY, score_pictures.CLIENTS):
            picture = self._folder / name
            event_files.add_picture(self._folder, f'pictures/{picture.stem}', picture, summary['rounds'])
