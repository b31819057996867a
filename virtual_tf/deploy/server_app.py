"""Flower's way into the server: the run configuration has every setting (options.py)."""
import os
import pathlib

from absl import logging
from flwr.serverapp import ServerApp

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
app = ServerApp()


@app.main()
def main(grid, context):
    # Flower's own process imports this file too, to look for the app in it; TensorFlow can wait.
    from virtual_tf.deploy import logs, options
    logs.to_stderr()
    play(grid, context, *options.parse(context.run_config))


def play(grid, context, options, settings):
    """Gathers the clients and plays the rounds; returns (summary, history)."""
    from virtual_tf import data
    from virtual_tf.core.errors import VirtualTfError
    from virtual_tf.deploy import client_data, ledger
    from virtual_tf.deploy.fleet import Fleet
    from virtual_tf.deploy.server import Federation
    from virtual_tf.runs import driver
    driver.check_names(settings)
    output = pathlib.Path(options.output_dir).expanduser()
    arguments = (grid, options.clients, settings.to_dict(), options.start_timeout, options.round_timeout,
                 options.pinned)
    fleet, kind = Fleet(*arguments), Federation
    if options.secure:
        from virtual_tf.deploy.secure import SecureFederation, SecureFleet
        fleet, kind = SecureFleet(*arguments, run_context=context), SecureFederation
    tests_server, dataset = options.evaluation == 'server', None
    if tests_server:
        whole = data.load(options.data_dir, settings)
        if len(whole.clients) < options.clients:
            raise VirtualTfError(f'{settings.dataset} has {len(whole.clients)} clients, clients is {options.clients}')
        dataset = whole.part(range(options.clients))
    fleet.gather(ledger.recall(output / 'checkpoints') if options.resume else {})
    if dataset is None:
        dataset = client_data.elsewhere(settings.dataset, fleet.introductions.values())
    logging.info('%d clients are there; %d rounds of %d of them', options.clients, settings.rounds,
                 settings.clients_per_round)
    return driver.run(
        settings, dataset, output, progress=False, resume=options.resume,
        make=lambda *parts: kind(*parts, fleet, options.norm_bound, tests_server))
