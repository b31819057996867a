"""Flower's way into a client. The node configuration says who it is:

    partition-id    its number, 0 to K − 1
    data            npz:FILE or leaf:FOLDER with its own data; without it, its part of the run's data set
    state-dir       a folder of its own for what it keeps
    plugins         files with models and methods, by commas; without it, those that the run configuration names

Flower starts a process for every message. What is heavy is imported when a message needs it.
"""
import json
import os
import pathlib
import platform
import time

from flwr.app import Message
from flwr.clientapp import ClientApp

from virtual_tf.deploy import compiled
from virtual_tf.deploy.masks import mask_when_asked

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
app = ClientApp(mods=[mask_when_asked])


@app.query()
def introduce(message, context):
    from virtual_tf.deploy import client_data, fleet
    dataset = load(context, json.loads(message.content['settings']['json']))
    return Message(fleet.pack_introduction(client_data.introduce(number(context), dataset)), reply_to=message)


@app.train()
def train(message, context):
    started = time.perf_counter()
    with compiled.kept(state_folder(context) / 'compiled' / platform.node()):     # code for this processor
        return _train(message, context, started)


def _train(message, context, started):
    from virtual_tf.deploy import fleet, logs, secure
    from virtual_tf.deploy.client import Client
    logs.to_stderr()
    channel = fleet if 'instruction' in message.content else secure
    instruction = channel.unpack_instruction(message.content)
    dataset = load(context, instruction.settings)
    imported = time.perf_counter()
    client = Client(number(context), dataset, state_folder(context), instruction)
    reply = client.answer()
    reply.report['details'] |= {'seconds_import': imported - started, 'seconds_client': time.perf_counter() - imported}
    if channel is secure:
        return Message(secure.pack_reply(reply, client.steps(reply)), reply_to=message)
    return Message(fleet.pack_reply(reply), reply_to=message)


def number(context):
    from virtual_tf.core.errors import VirtualTfError
    value = context.node_config.get('partition-id')
    if not isinstance(value, int):
        raise VirtualTfError(f'the node configuration has partition-id {value!r}; give each SuperNode its number, from '
                             '0, as in --node-config \'partition-id=0\'')
    return value


def load(context, settings):
    """The client's data set, for the settings {name: value} that the server sent."""
    from virtual_tf.core import plugins
    from virtual_tf.deploy import client_data
    from virtual_tf.methods import registry
    plugins.load_all(context.node_config.get('plugins') or context.run_config['plugins'])
    return client_data.load(number(context), context.node_config.get('data', ''), context.run_config['data_dir'],
                            registry.read_settings(settings))


def state_folder(context):
    """Where the client keeps its part; absolute, or as seen from where the SuperNode was started."""
    own = context.node_config.get('state-dir')
    return pathlib.Path(own or pathlib.Path(context.run_config['state_dir'], str(number(context)))).expanduser()
