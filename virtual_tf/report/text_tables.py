"""Tables as text: means with their intervals over seeds, in Markdown and in LaTeX."""
import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

_LATEX = {'%': r'\%', '±': r'$\pm$', '–': '--', 'β': r'$\beta$', 'γ': r'$\gamma$', '&': r'\&', '_': r'\_', '#': r'\#'}


def interval(values):
    """(mean, half width of the 95 % interval of the mean by Student's t); no width for a single value."""
    values = np.asarray(values, np.float64)
    if len(values) < 2:
        return float(values.mean()), None
    freedom, zero, one = tf.constant([len(values) - 1.0, 0.0, 1.0], tf.float64)
    t = tfd.StudentT(freedom, zero, one).quantile(np.float64(0.975))
    return float(values.mean()), float(t) * float(values.std(ddof=1)) / np.sqrt(len(values))


def cell(values, digits=2):
    """`97.65 ± 0.22`, or without the interval where a single value has none; a dash for no value at all."""
    if not len(values):
        return '–'
    mean, half = interval(values)
    return f'{mean:.{digits}f}' + (f' ± {half:.{digits}f}' if half is not None else '')


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
