"""The client app with faults, which the node configuration names: `fault`, and in which `fault-round`."""
import pathlib
import time
import zlib

import numpy as np
from flwr.app import Message
from flwr.clientapp import ClientApp

from virtual_tf.core import encoding
from virtual_tf.deploy import client_app, fleet, secure
from virtual_tf.deploy.client import Client
from virtual_tf.deploy.masks import mask_when_asked

app = ClientApp(mods=[mask_when_asked])
app.query()(client_app.introduce)


@app.train()
def train(message, context):
    channel = fleet if 'instruction' in message.content else secure
    instruction = channel.unpack_instruction(message.content)
    fault = context.node_config.get('fault', '')
    if instruction.number != context.node_config.get('fault-round', 0):
        fault = ''
    if fault == 'pause':
        pause(pathlib.Path(context.node_config['marker']))
    if fault == 'slow':
        time.sleep(context.node_config['seconds'])
    answer = client_app.train(message, context)
    if fault not in ('nan', 'shape'):
        return answer
    reply = fleet.unpack_reply(answer.content)
    if fault == 'nan':
        reply = reply._replace(delta=with_nan(reply.delta))
    if fault == 'shape':
        reply = reply._replace(delta=encoding.encode({'dense_1/kernel': np.zeros((2, 3), np.float32)}))
    return Message(fleet.pack_reply(reply), reply_to=message)


def pause(marker):
    """Stands still where training would begin, the first time, and leaves a sign that it does."""
    train_in_earnest = Client._train

    def stand_still(*arguments):
        if not marker.exists():
            marker.touch()
            time.sleep(600)
        return train_in_earnest(*arguments)
    Client._train = stand_still


def with_nan(delta):
    """The last value of the last tensor is NaN, and the checksum fits."""
    body = delta[:-8] + np.float32(np.nan).tobytes()
    return body + zlib.crc32(body).to_bytes(4, 'little')
