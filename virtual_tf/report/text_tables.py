"""Tables as text: means with their intervals over seeds, in Markdown and in LaTeX."""
import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from virtual_tf.core import safe_files

_LATEX = {'%': r'\%', '±': r'$\pm$', '–': '--', 'β': r'$\beta$', 'γ': r'$\gamma$', '&': r'\&', '_': r'\_', '#': r'\#',
          '−': '$-$', '×': r'$\times$'}


def interval(values):
    """(mean, half width of the 95 % interval of the mean by Student's t); no width for a single value."""
    values = np.asarray(values, np.float64)
    if len(values) < 2:
        return float(values.mean()), None
    freedom, zero, one = tf.constant([len(values) - 1.0, 0.0, 1.0], tf.float64)
    t = tfd.StudentT(freedom, zero, one).quantile(np.float64(0.975))
    return float(values.mean()), float(t) * float(values.std(ddof=1)) / np.sqrt(len(values))


def cell(values, digits=2, absent='–', sign=''):
    """`97.65 ± 0.22`, or without the interval where a single value has none.

    Of values that are None it says how many there are besides, or `absent` if there is nothing else. sign='+' shows
    that of a positive mean too.
    """
    numbers = [value for value in values if value is not None]
    if not numbers:
        return absent
    mean, half = interval(numbers)
    of_all = f' ({len(numbers)} of {len(values)})' if len(numbers) < len(values) else ''
    return f'{mean:{sign}.{digits}f}' + (f' ± {half:.{digits}f}' if half is not None else '') + of_all


def markdown(header, rows):
    lines = ['| ' + ' | '.join(header) + ' |', '|' + '---|' * len(header)]
    return '\n'.join(lines + ['| ' + ' | '.join(row) + ' |' for row in rows]) + '\n'


def latex(header, rows):
    """A tabular of the package booktabs."""
    def line(cells):
        return ' & '.join(_escape(text) for text in cells) + r' \\'
    return '\n'.join([rf'\begin{{tabular}}{{@{{}}{"l" * len(header)}@{{}}}}', r'\toprule', line(header), r'\midrule',
                      *map(line, rows), r'\bottomrule', r'\end{tabular}']) + '\n'


def _escape(text):
    return ''.join(_LATEX.get(character, character) for character in text.replace('**', '').replace('`', ''))


def write(path, parts, notes):
    """Tables, [(header, rows), …], with notes in Markdown, at path.md and path.tex; returns the Markdown."""
    text = '\n'.join(markdown(*part) for part in parts) + ''.join(f'\n{note}' for note in notes) + '\n'
    write_text(path.with_suffix('.md'), text)
    write_text(path.with_suffix('.tex'), '\n'.join(latex(*part) for part in parts)
               + ''.join(f'% {note}\n' for note in notes if note))
    return text


def write_text(path, text):
    """Replaces a file of text."""
    with safe_files.replacing(path) as file:
        file.write(text.encode())
