"""The driver as a user starts it: in a process of its own."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import types

import pytest
import tensorflow as tf
from toys import make_dataset

from scripts import entry, run
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.core.settings import COMMON
from virtual_tf.methods import registry

ROOT = pathlib.Path(__file__).parent.parent.parent
# Every request goes to a closed port: no network, found out at once.
NO_NETWORK = {name: 'http://127.0.0.1:9' for name in ('http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY')}

# What is wrong, and words of the sentence that says so.
BAD = {
    'dataset': (['--dataset=nonsense'], ("dataset 'nonsense' is unknown", 'watch', 'synthetic', 'mnist', 'pmnist')),
    'method': (['--method=virtual,nonsense'], ("method 'nonsense' is unknown", 'fedavg', 'fedprox', 'virtual')),
    'preset': (['--preset=nonsense'], ('preset', "'nonsense'", 'ours', 'paper', 'authors')),
    'too many clients': (['--clients_per_round=21'], ('clients_per_round = 21', '20 clients of watch')),
    'no damping': (['--damping=0'], ('damping', 'freeze the clients')),
    'negative beta': (['--kl_weight=-1e-3'], ('kl_weight must be at least 0', '-0.001')),
    'no damping left': (['--preset=paper', '--server_lr=1'], ('damping = 1 − server_lr', 'freeze')),
    'no files': (['--dataset=mnist'], ('train-images-idx3-ubyte.gz', '--data_dir')),
    'mistyped flag': (['--client_rl=0.1'], ('client_rl', 'Did you mean', 'client_lr')),
    'unknown flag': (['--nosuchflag'], ('nosuchflag', '--help')),
    'word without a flag': (['--use_bias', 'false'], ("'false' belongs to no flag", '--noflag')),
}


def start(*flags, **environment):
    return subprocess.run([sys.executable, '-m', 'scripts.run', *map(str, flags)], cwd=ROOT, text=True,
                          capture_output=True, env=os.environ | environment)


# Most of a command that is refused is importing: done once here, and every command is a process from there on.
REFUSALS = '''
import json, os, sys, tempfile
from scripts import entry, run

ended = []
for flags in json.load(sys.stdin):
    streams = [tempfile.TemporaryFile('w+') for _ in range(2)]
    if not os.fork():
        for number, stream in enumerate(streams, 1):
            os.dup2(stream.fileno(), number)
        sys.argv[1:] = flags
        sys.exit(entry.run(run.main, run.define_flags))
    code = os.waitstatus_to_exitcode(os.wait()[1])
    ended.append([code, *(stream.seek(0) or stream.read() for stream in streams)])
print(json.dumps(ended))
'''


@pytest.fixture(scope='module')
def refused(tmp_path_factory):
    """{case: ((exit code, stdout, stderr), folder that it was given)}"""
    folders = {case: tmp_path_factory.mktemp('refused') for case in BAD}
    for folder in folders.values():
        (folder / 'data').mkdir()
    commands = [[*BAD[case][0], f'--output_dir={folder}/out', f'--data_dir={folder}/data']
                for case, folder in folders.items()]
    done = subprocess.run([sys.executable, '-c', REFUSALS], input=json.dumps(commands), cwd=ROOT, text=True,
                          capture_output=True, env=os.environ | NO_NETWORK)
    assert done.returncode == 0, done.stderr
    return {case: (ended, folders[case]) for case, ended in zip(BAD, json.loads(done.stdout))}


@pytest.mark.parametrize('case', BAD)
def test_bad_input_is_one_sentence_exit_code_2_and_nothing_written(refused, case):
    (code, said, complained), folder = refused[case]
    assert code == 2
    assert said == ''
    lines = complained.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith('error: ')
    assert all(word in lines[0] for word in BAD[case][1])
    assert [path.name for path in folder.rglob('*')] == ['data']


def flag_values(**given):
    """What absl holds: None for what was not given."""
    unset = dict.fromkeys(COMMON | registry.own_settings()) | {'private_baselines': False, 'seed': ['0']}
    return types.SimpleNamespace(**(unset | given))


def test_methods_and_private_variants_are_run_in_order_and_once():
    runs = run.settings_of_flags(flag_values(method=['virtual', 'fedavg', 'virtual'], private=['none', 'residual']))
    assert [settings.variant() for settings in runs] == ['virtual', 'virtual-residual', 'fedavg']
    given = flag_values(method=['virtual', 'fedavg'], private=['joint'], private_baselines=True, rounds=7)
    runs = run.settings_of_flags(given)
    assert [settings.variant() for settings in runs] == ['virtual-joint', 'fedavg-joint']
    assert {settings.rounds for settings in runs} == {7}


def test_no_method_at_all_is_refused_with_the_known_ones():
    sentence = 'method and seed name nothing to run; methods are barycentre, ditto, fedavg'
    with pytest.raises(VirtualTfError, match=sentence):
        run.settings_of_flags(flag_values(method=[]))


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """A small run of two methods with a flag file."""
    folder = tmp_path_factory.mktemp('finished')
    (folder / 'flags.txt').write_text('--rounds=2\n--epochs=1\n--clients_per_round=3\n--compile=graph\n')
    process = start(f'--flagfile={folder}/flags.txt', '--method=virtual,fedavg,virtual', '--private=none',
                    '--histogram_every=1', '--validation_fraction=0.2', f'--output_dir={folder}/out')
    assert process.returncode == 0, process.stderr
    return process, folder / 'out'


def test_a_run_writes_one_folder_a_method_and_a_picture_of_all(finished):
    _, out = finished
    assert {path.name for path in out.iterdir()} == {
        'virtual', 'fedavg', 'learning_curves.png', 'reliability.png', 'clients.png', 'results.json'}
    for name in ('virtual', 'fedavg'):
        files = {path.name for path in (out / name / 'seed-0').iterdir() if not path.name.startswith('events.')}
        assert files >= {'config.json', 'metrics.jsonl', 'summary.json', 'learning_curves.png'}
    for picture in out.rglob('*.png'):
        assert picture.read_bytes().startswith(b'\x89PNG')


def test_metrics_are_strict_json_one_object_a_round(finished):
    _, out = finished

    def refuse(constant):
        raise AssertionError(f'{constant} is no JSON')

    for name in ('virtual', 'fedavg'):
        rows = [json.loads(line, parse_constant=refuse)
                for line in (out / name / 'seed-0' / 'metrics.jsonl').read_text().splitlines()]
        assert [row['round'] for row in rows] == [1, 2]
        for row in rows:
            assert {'server/accuracy', 'server/cross_entropy', 'mt/accuracy', 'mt/cross_entropy', 'train/loss',
                    'bytes_up', 'bytes_down', 'seconds'} <= set(row)


def test_config_has_what_was_asked_for_and_the_methods_defaults(finished):
    _, out = finished
    virtual, fedavg = (json.loads((out / name / 'seed-0' / 'config.json').read_text())['settings']
                       for name in ('virtual', 'fedavg'))
    assert (virtual['rounds'], virtual['clients_per_round'], virtual['validation_fraction']) == (2, 3, 0.2)
    assert virtual['server_lr'] != 1.0 and fedavg['server_lr'] == 1.0


def test_the_summary_has_every_protocol(finished):
    _, out = finished
    summary = json.loads((out / 'virtual' / 'seed-0' / 'summary.json').read_text())
    assert {'max', 'max_round', 'final', 'last_5', 'val', 'val_round', 'seconds'} <= set(summary)
    rows = [json.loads(line) for line in (out / 'virtual' / 'seed-0' / 'metrics.jsonl').read_text().splitlines()]
    assert summary['max']['server/accuracy'] == max(row['server/accuracy'] for row in rows)


def test_events_have_scalars_histograms_and_the_hparams_session(finished):
    _, out = finished
    paths = [str(path) for path in (out / 'virtual' / 'seed-0').glob('events.out.tfevents.*')]
    plugins = {}
    for record in tf.data.TFRecordDataset(paths):
        for value in tf.compat.v1.Event.FromString(record.numpy()).summary.value:
            plugins.setdefault(value.metadata.plugin_data.plugin_name, set()).add(value.tag)
    assert {'server/accuracy', 'mt/accuracy', 'train/loss', 'max/mt/accuracy'} <= plugins['scalars']
    assert 'server_shared/dense_1/kernel/log10_snr' in plugins['histograms']
    assert '_hparams_/session_start_info' in plugins['hparams']


def test_the_output_ends_with_a_table_the_picture_and_how_to_look_inside(finished):
    process, out = finished
    lines = process.stdout.strip().splitlines()
    rows = [line.split('  ')[0] for line in lines if line.startswith(('virtual', 'fedavg'))]
    assert rows[:2] == ['virtual', 'fedavg']
    assert rows[2:8] == ['virtual, S', 'virtual, MT', 'fedavg, S', 'fedavg, MT', 'virtual − fedavg, S',
                         'virtual − fedavg, MT']
    assert str(out / 'learning_curves.png') in lines[-3]
    assert lines[-1].endswith(f'tensorboard --logdir {out}')


def test_seeds_run_one_after_the_other_in_folders_of_their_own(tmp_path):
    runs = run.settings_of_flags(flag_values(method=['virtual', 'fedavg'], private=['none'], seed=['0', '2']))
    assert [(settings.seed, settings.method) for settings in runs] == [
        (0, 'virtual'), (0, 'fedavg'), (2, 'virtual'), (2, 'fedavg')]
    assert run.folder_of(tmp_path, runs[2]) == tmp_path / 'virtual' / 'seed-2'
    assert run.folder_of(tmp_path, runs[0]) == tmp_path / 'virtual' / 'seed-0'
    with pytest.raises(VirtualTfError, match='seed must be a whole number from 0, or several with commas, got 0,x'):
        run.settings_of_flags(flag_values(method=['virtual'], seed=['0', 'x']))


def test_a_run_of_one_seed_is_found_where_version_0_1_put_it(tmp_path):
    """There it was root/VARIANT, without a folder for the seed."""
    settings, = run.settings_of_flags(flag_values(method=['fedavg'], seed=['3']))
    (tmp_path / 'fedavg').mkdir()
    (tmp_path / 'fedavg' / 'config.json').write_text(json.dumps({'settings': {'method': 'fedavg', 'seed': 3}}))
    assert run.folder_of(tmp_path, settings) == tmp_path / 'fedavg'
    assert run.folder_of(tmp_path, settings.replace(seed=0)) == tmp_path / 'fedavg' / 'seed-0'


@pytest.mark.parametrize('given, words', [
    ({'method': ['fedavg'], 'kl_weight': 1e-4}, ('--kl_weight is ignored', 'a setting of virtual')),
    ({'method': ['virtual'], 'l2': 0.1}, ('--l2 is ignored', 'fedprox')),
    ({'method': ['fedavg'], 'private': ['joint']}, ('--private is ignored', '--private_baselines')),
    ({'method': ['virtual'], 'dataset': 'leaf:x', 'max_clients': 5}, ('--max_clients is ignored', 'femnist')),
    ({'method': ['virtual'], 'split_clients': 5}, ('--split_clients is ignored', 'with --split'))])
def test_a_flag_that_nothing_uses_is_told(given, words):
    sentence, = run.unused(flag_values(**given))
    assert all(word in sentence for word in words)


def test_flags_that_are_used_are_not_told():
    assert not [*run.unused(flag_values(method=['virtual', 'fedprox'], l2=0.1, kl_weight=1e-4, private=['none'],
                                        dataset='femnist', max_clients=5))]
    runs = run.settings_of_flags(flag_values(method=['virtual', 'fedprox'], l2=0.1, kl_weight=1e-4))
    assert (runs[0].kl_weight, runs[1].l2) == (1e-4, 0.1) and 'l2' not in runs[0] and 'kl_weight' not in runs[1]


def test_help_has_headings_what_everybody_needs_first_and_values():
    process = start('--help')
    assert process.returncode == 0 and process.stderr == ''
    headings = [line for line in process.stdout.splitlines() if line.endswith(':') and not line.startswith(' ')]
    assert headings[:3] == ['what everybody needs:', 'run:', 'data:']
    assert {'model:', 'what travels:', 'output:', 'method virtual:', 'method fedprox:'} <= {*headings}
    assert 'logtostderr' not in process.stdout
    line = next(line for line in process.stdout.splitlines() if line.startswith('  --server_lr'))
    assert process.stdout.index('--method ') < process.stdout.index('--rounds ') < process.stdout.index('--epochs ')
    default = registry.make_settings({'method': 'virtual'}).server_lr
    assert 'server learning rate' in line and f'virtual {default}' in ' '.join(process.stdout.split())


def test_a_signal_in_the_last_round_ends_the_command_after_the_run(monkeypatch, capsys):
    def last_round(*_, stop, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        while not stop():
            time.sleep(0.01)
        return {}, []
    monkeypatch.setattr(run.driver, 'run', last_round)
    with pytest.raises(SystemExit) as ended:
        run.play(None, None, 'out', True)
    assert ended.value.code == entry.BY_SIGNAL + signal.SIGTERM
    assert 'SIGTERM: stopped after the last round of out' in capsys.readouterr().err


def test_fewer_clients_than_the_default_are_all_taken_unless_somebody_said_how_many(capsys):
    values = flag_values(method=['fedavg', 'virtual'], private=['none'])
    runs = run.with_fitting_cohorts(run.settings_of_flags(values), make_dataset(), values)
    assert [settings.clients_per_round for settings in runs] == [4, 4]     # the toys' four clients
    assert 'clients_per_round = 4, all clients of toy' in capsys.readouterr().out
    values = flag_values(method=['fedavg'], clients_per_round=7)
    assert run.with_fitting_cohorts(run.settings_of_flags(values), make_dataset(), values)[0].clients_per_round == 7
