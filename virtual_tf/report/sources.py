"""Where tables, figures and statements find their runs, and the command that makes those that are not there."""
import dataclasses
import pathlib

from virtual_tf.data.download import DATA_DIR
from virtual_tf.studies import kept

OUTPUT_DIR = 'runs'


@dataclasses.dataclass(frozen=True)
class Source:
    """Where runs and data lie."""
    root: pathlib.Path
    data_dir: str = DATA_DIR
    given: dict = dataclasses.field(default_factory=dict)     # {setting: value} for all runs, in place of theirs
    kept: dict = dataclasses.field(default_factory=dict)      # {folder: Run} of runs whose folders may be gone

    def runs(self, each):
        """Finished runs of an Experiment, by seed."""
        return kept.runs_of(each, self.root, self.kept)

    def command(self, studies, seeds=()):
        """What makes the runs of studies."""
        given = self.given | ({'seed': ','.join(map(str, seeds))} if seeds else {})
        # It stands in tables that are handed on, where nobody's own folder of data has a meaning.
        given = ({} if self.data_dir == DATA_DIR else {'data_dir': 'DATA'}) | (
            {} if str(self.root) == OUTPUT_DIR else {'output_dir': self.root}) | given
        return f'python -m scripts.sweep --study={",".join(studies)}' + ''.join(
            f' --{name}={value}' for name, value in given.items())

    def named_settings(self):
        """What the runs have in place of their own, as one reads it."""
        return ', '.join(f'{name} = {value}' for name, value in self.given.items())
