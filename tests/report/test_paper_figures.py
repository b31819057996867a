import types

import matplotlib.colors
import numpy as np
import pytest
import stored_runs
from toys import make_dataset

from virtual_tf import data
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.data.federated import DataError
from virtual_tf.methods import registry
from virtual_tf.report import figures, paper_figures
from virtual_tf.report.sources import Source
from virtual_tf.runs import snr
from virtual_tf.runs.folder import RunFolder
from virtual_tf.runs.summary import MT, S
from virtual_tf.simulator import checkpoints
from virtual_tf.studies import experiments, kept


def rows_of(values, **changes):
    """Every metric has these values by round, or those of `changes` for its key."""
    return [{key: changes.get(key, values)[i] for key in kept.KEYS} for i in range(len(values))]


def write_experiment(root, each, by_seed, **changes):
    stored_runs.write_seeds(root, each, {seed: rows_of(values, **changes) for seed, values in by_seed.items()})


def lines_of(axis, label=None):
    return [line for line in axis.lines if label is None or line.get_label() == label]


def picture(drawn):
    pictures, _ = drawn
    return pictures[0].figure


def test_kl_has_a_thin_and_a_thick_line_for_every_weight(tmp_path):
    values = {1e-6: [4.0, 2.0], 1.0: [8.0, 6.0]}
    for weight, column in values.items():
        write_experiment(tmp_path, experiments.kl_study(weight), {0: column}, **{'mt/cross_entropy': [1.0, 0.5]})
    pictures, lacking = paper_figures.kl(Source(tmp_path))
    server, mt, bar = pictures[0].figure.axes
    thin, thick = server.lines[:2], mt.lines[:2]
    assert [line.get_ydata().tolist() for line in server.lines] == [[4, 2], [4, 3], [8, 6], [8, 7]]
    assert [line.get_ydata().tolist() for line in thick] == [[1, 0.5], [1, 0.75]]
    assert thin[0].get_linewidth() < thin[1].get_linewidth() and server.get_yscale() == mt.get_yscale() == 'log'
    assert bar.get_yscale() == 'log' and thin[0].get_color() != server.lines[2].get_color()
    title = pictures[0].figure.get_suptitle()
    assert 'writers, mlp, 2 rounds, 1 seed' in title and '20 rounds' in title
    assert len(lacking) == 1 and 'kl/1e-05 (seeds 0, 1, 2)' in lacking[0] and 'kl/1e-06 (seeds 1, 2)' in lacking[0]
    assert f'python -m scripts.sweep --study=kl --output_dir={tmp_path}' in lacking[0]


def test_curves_have_a_column_a_case_and_a_band_over_seeds(tmp_path):
    write_experiment(tmp_path, experiments.table2('mnist', 'virtual'), {0: [2.0, 1.0], 1: [4.0, 3.0]})
    write_experiment(tmp_path, experiments.table2('mnist', 'fedavg'), {0: [5.0, 4.0]}, **{'train/loss': [7.0, 6.0]})
    write_experiment(tmp_path, experiments.table2('har', 'virtual'), {0: [0.5, 0.25]})
    pictures, lacking = paper_figures.curves(Source(tmp_path))
    axes = np.reshape(pictures[0].figure.axes, [3, 2])
    virtual, fedavg = lines_of(axes[0, 0], 'VIRTUAL')[0], lines_of(axes[2, 0], 'FedAvg')[0]
    assert virtual.get_ydata().tolist() == [3.0, 2.0] and fedavg.get_ydata().tolist() == [7.0, 6.0]
    assert matplotlib.colors.to_hex(virtual.get_color()).upper() == registry.looks()['VIRTUAL'][0]
    band = axes[0, 0].collections[0].get_paths()[0].vertices
    assert {tuple(point) for point in band} == {(1, 2), (1, 4), (2, 1), (2, 3)}
    assert not axes[0, 1].collections      # one seed has no band
    assert all(axis.get_yscale() == 'log' for axis in axes.flat)
    assert [axis.get_ylabel() for axis in axes[:, 0]] == ['S cross-entropy', 'MT cross-entropy', 'training loss']
    assert axes[0, 0].get_title() == 'mnist, mlp\n2 rounds, 1–2 seeds'
    assert 'mnist, mlp, 2 rounds, C = 10, E = 20: FedAvg seed 0; VIRTUAL seeds 0, 1.' in pictures[0].caption
    named = next(line for line in lacking if 'table2/mnist/' in line)
    assert 'table2/mnist/fedavg (seeds 1, 2)' in named and 'table2/mnist/virtual (seed 2)' in named
    assert (f'all of table2/shakespeare (seed 0): python -m scripts.sweep --study=table2/shakespeare '
            f'--output_dir={tmp_path}') in lacking


def test_accuracies_are_in_percent_on_a_plain_axis(tmp_path):
    write_experiment(tmp_path, experiments.table2('vsn', 'fedprox'), {0: [0.25, 0.5]})
    axes = picture(paper_figures.accuracy(Source(tmp_path))).axes
    assert [axis.lines[0].get_ydata().tolist() for axis in axes] == [[25.0, 50.0]] * 3
    assert axes[0].get_yscale() == 'linear' and axes[2].get_ylabel() == 'training accuracy, %'


def test_more_cases_than_fit_beside_each_other_go_below(tmp_path):
    for case in experiments.CASES:
        write_experiment(tmp_path, experiments.table2(case, 'fedavg'), {0: [2.0, 1.0]})
    figure = picture(paper_figures.curves(Source(tmp_path)))
    figure.draw_without_rendering()
    titles = [axis.get_title().split('\n')[0] for axis in figure.axes if axis.get_title()]
    assert titles == ['mnist, mlp', 'pmnist, mlp', 'writers, mlp', 'har, mlp', 'vsn, mlp', 'writers, conv',
                      'shakespeare, lstm']
    # Three rows of four, three of three; none beyond a page's width.
    assert len(figure.axes) == 21 and figure.get_size_inches()[0] <= 7.2


def test_epochs100_has_the_runs_of_table_4_alone(tmp_path):
    write_experiment(tmp_path, experiments.table2('writers', 'fedavg'), {0: [9.0]})
    write_experiment(tmp_path, experiments.table4('writers', 'fedavg'), {0: [2.0]})
    write_experiment(tmp_path, experiments.table4('writers-conv', 'fedavg'), {0: [1.0]})
    pictures, lacking = paper_figures.epochs100(Source(tmp_path))
    assert [each.name for each in pictures] == ['epochs100', 'epochs100_accuracy']
    assert [axis.lines[0].get_ydata()[0] for axis in pictures[0].figure.axes[:2]] == [2.0, 1.0]
    assert 'E = 100' in pictures[0].figure.get_suptitle()
    assert len(lacking) == 2 and 'table4/writers/fedavg (seeds 1, 2)' in lacking[0]


def test_runs_of_other_settings_are_told_in_the_caption(tmp_path):
    each = experiments.table2('har', 'fedavg')
    stored_runs.write(tmp_path / each.folder(0), each.settings(0).replace(client_lr=0.123), rows_of([1.0]))
    stored_runs.write(tmp_path / each.folder(1), each.settings(1), rows_of([1.0]))
    pictures, _ = paper_figures.curves(Source(tmp_path))
    assert 'table2/har/fedavg/seed-0 has client_lr = 0.123' in pictures[0].caption
    assert 'seed-1' not in pictures[0].caption


def test_snr_has_both_variants_and_the_sentences(tmp_path):
    half = np.append(np.where(snr.GRID < 0, 0, 50), 100)
    for kind, counts in (('virtual', half), ('fedavg_init', half // 2)):
        each = experiments.table3(kind)
        write_experiment(tmp_path, each, {0: [1.0]})
        np.savez(tmp_path / each.folder(0) / snr.FILE, dense_1=counts)
    pictures, lacking = paper_figures.snr_cdf(Source(tmp_path))
    axis, = pictures[0].figure.axes
    # 50 of 100 from SNR 1 on; 25 of 50 is the same share.
    assert [line.get_ydata()[-1] for line in axis.lines[:2]] == [0.5, 0.5]
    assert [line.get_label() for line in axis.lines[:2]] == ['VIRTUAL', 'VIRTUAL + FedAvg init']
    assert 'VIRTUAL: 50.0 % of the weights have an SNR below 1' in pictures[0].caption
    assert len(lacking) == 2 and 'seeds 1, 2' in lacking[0] and '--study=table3/virtual-0' in lacking[0]


def write_checkpoint(folder, hits, trained):
    (folder / 'checkpoints').mkdir()
    clients = types.SimpleNamespace(save=lambda: dict.fromkeys(trained, 1), keep=lambda manifests: None)
    checkpoints.Checkpoints(folder / 'checkpoints').save(types.SimpleNamespace(
        round=2, server=[], scores={'mt': types.SimpleNamespace(sums={'hits': hits})}, clients=clients), {})


@pytest.fixture
def shakespeare(tmp_path, monkeypatch):
    """A finished run of two rounds in which clients 0, 1 and 3 of four have trained, and its data."""
    dataset, each = make_dataset(), experiments.table2('shakespeare', 'virtual')
    hits, targets = np.array([1.0, 2.0, 0.0, 3.0]), dataset.test.targets()
    reached = hits.sum() / targets.sum()
    write_experiment(tmp_path, each, {0: [0.1, 0.1]}, **{MT: [0.0, reached], S: [0, 0.75]})
    write_checkpoint(tmp_path / each.folder(0), hits, [0, 1, 3])
    asked = []
    monkeypatch.setattr(data, 'load', lambda data_dir, settings: asked.append(settings) or dataset)
    return types.SimpleNamespace(root=tmp_path, folder=tmp_path / each.folder(0), hits=hits, targets=targets,
                                 dataset=dataset, asked=asked)


def test_client_size_has_a_point_a_client(shakespeare):
    pictures, lacking = paper_figures.client_size(Source(shakespeare.root))
    axis, = pictures[0].figure.axes
    seen, never, trend, server = axis.lines
    accuracy = 100 * shakespeare.hits / shakespeare.targets
    # make_dataset has 9, 5, 7 and 12 training examples; client 2 never trained.
    assert seen.get_xdata().tolist() == [9, 5, 12] and seen.get_ydata() == pytest.approx(accuracy[[0, 1, 3]])
    assert never.get_xdata().tolist() == [7] and 'never selected' in never.get_label()
    assert trend.get_xdata() == pytest.approx([5, 9, 12]) and server.get_ydata()[0] == 75.0
    assert axis.get_xscale() == 'log' and 'VIRTUAL 1' in pictures[0].caption
    assert shakespeare.asked[0].dataset == 'shakespeare' and not shakespeare.asked[0].download
    assert len(lacking) == 1 and 'table2/shakespeare/fedavg (seed 0)' in lacking[0]


def test_client_size_refuses_other_data_and_a_run_without_checkpoint(shakespeare, monkeypatch):
    run = RunFolder(shakespeare.folder).read()
    with pytest.raises(VirtualTfError, match='other data'):
        figures.sizes_of(run, make_dataset(sizes=(9, 5, 7, 40)))
    with pytest.raises(VirtualTfError, match='other data'):
        figures.sizes_of(run, make_dataset(sizes=(9, 5)))
    (shakespeare.folder / 'checkpoints').rename(shakespeare.root / 'elsewhere')
    pictures, lacking = paper_figures.client_size(Source(shakespeare.root))
    assert not pictures and 'no checkpoint' in lacking[1] and '--study=table2/shakespeare/virtual' in lacking[1]

    def fail(*_):
        raise DataError('put the files there')
    monkeypatch.setattr(data, 'load', fail)
    assert paper_figures.client_size(Source(shakespeare.root))[1][1] == 'put the files there'


def test_what_was_drawn_is_kept_if_it_is_as_the_experiment_is_now(tmp_path):
    each = experiments.table2('har', 'fedavg')
    write_experiment(tmp_path, each, {1: [1.0] * 30})
    stored_runs.write(tmp_path / each.folder(0), each.settings(0).replace(client_lr=0.123), rows_of([1.0]))
    write_experiment(tmp_path, experiments.table3('fedavg'), {0: [1.0]})     # in no figure by round
    paper_figures.keep(tmp_path / kept.FILE, Source(tmp_path))
    assert list(kept.load(tmp_path / kept.FILE)) == [each.folder(1)]
