"""A client's own data, and the server's picture of it."""
import dataclasses

import numpy as np
import pytest
import toys

from virtual_tf.core.errors import VirtualTfError
from virtual_tf.data.federated import DataError, FederatedDataset, Split
from virtual_tf.deploy import client_data
from virtual_tf.methods.registry import make_settings


def write(path, clients=('me',), rows=8):
    generator = np.random.default_rng(0)
    names = np.repeat(clients, rows)
    np.savez(path, x=generator.normal(size=(len(names), 3)).astype(np.float32), y=np.arange(len(names)) % 2,
             client=names, test=np.arange(len(names)) % 4 == 3)
    return f'npz:{path}'


def test_a_split_by_label_needs_all_data(tmp_path):
    with pytest.raises(DataError, match='leave split out'):
        client_data.load(0, write(tmp_path / 'mine.npz'), tmp_path, make_settings({'split': 'classes:2'}))


def test_a_client_reads_its_own_archive(tmp_path):
    found = client_data.load(5, write(tmp_path / 'mine.npz'), tmp_path, make_settings({}))
    assert found.clients == ('me',)
    introduction = client_data.introduce(5, found)
    assert introduction.client == 5 and introduction.sizes == {'train': (6, 6), 'test': (2, 2)}


def test_an_archive_of_several_clients_is_refused(tmp_path):
    with pytest.raises(DataError, match='has 2 clients'):
        client_data.load(0, write(tmp_path / 'ours.npz', ('me', 'you')), tmp_path, make_settings({}))


def test_what_needs_all_data_in_one_place_is_refused(tmp_path):
    with pytest.raises(DataError, match='standardize=client'):
        client_data.load(0, write(tmp_path / 'mine.npz'), tmp_path, make_settings({'standardize': 'global'}))


def test_a_part_of_a_named_data_set_is_that_of_the_simulator(tmp_path):
    settings = make_settings({'dataset': 'synthetic', 'synthetic_clients': 3, 'validation_fraction': 0.2})
    found = client_data.load(2, '', tmp_path, settings)
    whole = client_data.data.load(tmp_path, settings)
    for split in ('train', 'test', 'validation'):
        for own, expected in zip(getattr(found, split).client(0), getattr(whole, split).client(2)):
            np.testing.assert_array_equal(own, expected)
    with pytest.raises(DataError, match='none of the 3'):
        client_data.load(3, '', tmp_path, settings)


@pytest.mark.parametrize('weighting', ['uniform', 'size'])
def test_data_that_is_elsewhere_has_the_sizes_and_weights_of_the_real(weighting):
    dataset = toys.make_dataset(validation=0.2)
    outline = client_data.elsewhere('toy', [client_data.introduce(i, dataset.part([i])) for i in range(4)])
    assert (outline.input_shape, outline.num_classes, outline.clients) == (
        dataset.input_shape, dataset.num_classes, dataset.clients)
    np.testing.assert_array_equal(outline.prior_weights(weighting), dataset.prior_weights(weighting))
    for split in ('train', 'test', 'validation'):
        np.testing.assert_array_equal(getattr(outline, split).targets(), getattr(dataset, split).targets())


def test_targets_of_sequences_are_counted():
    y = np.array([[1, 2, -1], [3, -1, -1]], np.int32)
    split = Split.of([(np.zeros((2, 3), np.int32), y)])
    introduction = client_data.introduce(0, FederatedDataset('text', ('a',), split, split, 5))
    assert introduction.sizes['train'] == (2, 3)
    assert client_data.elsewhere('text', [introduction]).train.targets().tolist() == [3]


def test_clients_with_unlike_data_are_named():
    dataset = toys.make_dataset()
    first, second = (client_data.introduce(i, dataset.part([i])) for i in range(2))
    with pytest.raises(VirtualTfError, match=r'client 1 .* input_shape \[4\]'):
        client_data.elsewhere('toy', [first, second._replace(input_shape=[4])])


def test_a_part_keeps_the_rest_of_a_data_set():
    dataset = dataclasses.replace(toys.make_dataset(), caveat='a caveat')
    part = dataset.part([3, 1])
    assert part.clients == ('client d', 'client b') and part.caveat == 'a caveat' and part.validation is None
    np.testing.assert_array_equal(part.train.client(1)[0], dataset.train.client(1)[0])
