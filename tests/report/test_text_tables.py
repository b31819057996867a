import numpy as np
import pytest
import scipy.stats

from virtual_tf.report import text_tables


@pytest.mark.parametrize('values', [(1.0, 2.0, 4.0), (97.1, 97.3), tuple(range(9))])
def test_the_interval_is_students(values):
    mean, half = text_tables.interval(values)
    low, high = scipy.stats.t.interval(0.95, len(values) - 1, np.mean(values), scipy.stats.sem(values))
    np.testing.assert_allclose([mean - half, mean + half], [low, high], rtol=1e-6)


def test_cells():
    # two values a and b: t = 12.7062, sd/√2 = |a − b|/2
    assert text_tables.cell([1.0, 1.2]) == '1.10 ± 1.27'
    assert text_tables.cell([97.651], 1) == '97.7' and text_tables.cell([]) == '–'
    assert text_tables.cell([None, 1.0, None, 1.2]) == '1.10 ± 1.27 (2 of 4)'
    assert text_tables.cell([None, None], absent='never') == 'never'


def test_markdown_and_latex():
    header, rows = ('a', 'b'), [('`x_y`', '1.0 ± 0.1'), ('50 %', '–')]
    assert text_tables.markdown(header, rows) == '| a | b |\n|---|---|\n| `x_y` | 1.0 ± 0.1 |\n| 50 % | – |\n'
    assert text_tables.latex(header, rows).splitlines()[4:6] == [r'x\_y & 1.0 $\pm$ 0.1 \\', r'50 \% & -- \\']


def test_a_table_is_written_in_both_forms_with_its_notes(tmp_path):
    parts = [(('a',), [('1',)]), (('b',), [('2 %',)])]
    text = text_tables.write(tmp_path / 'table', parts, ['- a note', '', 'another'])
    assert text == '| a |\n|---|\n| 1 |\n\n| b |\n|---|\n| 2 % |\n\n- a note\n\nanother\n'
    assert (tmp_path / 'table.md').read_text(encoding='utf-8') == text
    latex = (tmp_path / 'table.tex').read_text(encoding='utf-8')
    assert latex == '\n'.join(text_tables.latex(*part) for part in parts) + '% - a note\n% another\n'
