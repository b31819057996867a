"""Secure aggregation: Flower's SecAgg+, so that the server sees Π Δ_i and no single Δ_i.

Each client masks its steps (units.py) with keys that it shares with others; the masks cancel in the sum. Flower has
this as a workflow of its older interface, which is called here once a round. Weights are 1: mean × number = sum.
What a server cannot see it cannot check: norms and shapes of single deltas are up to the clients, and clipping alone
bounds what each can do. The reports (loss, scores) are not masked.
"""
import json
import types

from absl import logging
from flwr.app import ArrayRecord, ConfigRecord, Context, RecordDict
from flwr.common import Code, FitIns, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS
from flwr.common.secure_aggregation.secaggplus_constants import Key as SecAggKey
from flwr.compat.common import recorddict_compat as compat
from flwr.server import LegacyContext
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key

from virtual_tf.deploy import fleet, units
from virtual_tf.deploy.fleet import Fleet, check_reply, read
from virtual_tf.deploy.messages import Failure, RefusedError, Reply, check_report
from virtual_tf.deploy.server import Federation


def unpack_instruction(record):
    """The Instruction in a message of the older interface."""
    asked = compat.recorddict_to_fitins(record, keep_input=True)
    server, shrink = (ArrayRecord([array]) for array in parameters_to_ndarrays(asked.parameters))
    return fleet.unpack_instruction(RecordDict({
        'instruction': ConfigRecord({'json': asked.config['json']}), 'server': server, 'shrink': shrink}))


def pack_reply(reply, steps):
    """The reply without its delta, which goes as steps and is masked on its way out."""
    described = json.dumps(reply._replace(delta=None)._asdict())
    return compat.fitres_to_recorddict(
        FitRes(Status(Code.OK, ''), ndarrays_to_parameters(steps), 1, {'json': described}), keep_input=False)


class SecureFleet(Fleet):
    """exchange gives replies without deltas; `total` then has the sum of their steps, None if there is none."""

    def __init__(self, *arguments, run_context=None):
        super().__init__(*arguments)
        self._context, self.total, self.masked_bytes = run_context, None, 0
        self._reasons = {}     # node → the Failure that it answered with

    def _exchange_with(self, here, instructions):
        self.total, self.masked_bytes, self._reasons = None, 0, {}
        clients = {node: client for client, node in here.items()}
        try:
            results = self._aggregate({node: instructions[client] for node, client in clients.items()})
            replies = {clients[node]: _read_reply(result) for node, result in results.items()}
        except Exception as error:     # Flower checks nothing of what the clients send it
            logging.warning('secure aggregation failed: %r', error)
            return dict.fromkeys(here, Failure('refused', f'the round counts for nobody: {error!r:.300}'))
        silent = Failure('late', 'no masked delta of it is in the sum')
        return {client: replies.get(client) or self._reasons.get(node) or silent for client, node in here.items()}

    def _aggregate(self, instructions):
        """{node: result} of a round with {node: Instruction}; `total` has the sum of the deltas, in steps."""
        strategy = _Round([(types.SimpleNamespace(node_id=node), _fit(instruction))
                           for node, instruction in instructions.items()])
        context = LegacyContext(Context(
            self._context.run_id, self._context.node_id, self._context.node_config, RecordDict({
                MAIN_CONFIGS_RECORD: ConfigRecord({Key.CURRENT_ROUND: 1}), MAIN_PARAMS_RECORD: ArrayRecord([])}),
            self._context.run_config), strategy=strategy)
        Workflow(1.0, 0.5, max_weight=1.0, clipping_range=units.CLIP, quantization_range=units.LEVELS,
                 timeout=self._round_timeout)(self, context)
        if strategy.results:
            mean = parameters_to_ndarrays(strategy.results[0][1].parameters)
            self.total = [len(strategy.results) * value for value in mean]
            units.check_whole(self.total)
        return {proxy.node_id: result for proxy, result in strategy.results}

    def send_and_receive(self, messages, *, timeout):
        """What the workflow needs of a grid; it is given no errors, whose reasons are kept."""
        messages = list(messages)
        for message in messages:
            message.metadata.ttl = timeout
        replies = self._deliver(messages, timeout)
        self._reasons |= {node: read(reply, None) for node, reply in replies.items() if reply.has_error()}
        found = [reply for reply in replies.values() if not reply.has_error()]
        for reply in found:
            masked = reply.content.config_records[RECORD_KEY_CONFIGS].get(SecAggKey.MASKED_PARAMETERS, [])
            self.masked_bytes += sum(map(len, masked))
        return found


class Workflow(SecAggPlusWorkflow):
    """Flower's, without those who leave before all have shares of their keys.

    Flower goes on to ask for shares of their keys when the masks come off, which nobody has: the round would be lost
    for all. They have masked nothing, so nothing of theirs has to come off.
    """

    def share_keys_stage(self, grid, context, state):
        enough = super().share_keys_stage(grid, context, state)
        state.sampled_node_ids = {*state.active_node_ids}
        state.nid_to_neighbours = {node: state.nid_to_neighbours[node] & state.active_node_ids
                                   for node in state.active_node_ids}
        return enough


class SecureFederation(Federation):
    """Rounds in which only the sum of the deltas is known."""
    secure = True

    def _sift(self, replies, instructions, server):
        answered = {client: reply for client, reply in sorted(replies.items()) if isinstance(reply, Reply)}
        failures = {client: reply for client, reply in replies.items() if isinstance(reply, Failure)}
        for client, reply in answered.items():
            try:
                check_report(reply.report, self._expected_scores())
                if reply.version != instructions[client].order.version:
                    raise RefusedError(f'it answers version {reply.version}')
            except RefusedError as error:
                # Its delta cannot be taken out of the sum again: nobody's counts in this round.
                self._fleet.total = None
                return {}, [], failures | {other: Failure('refused', f'client {client}: {error}') for other in answered}
        return {client: (reply, None) for client, reply in answered.items()}, [], failures

    def _largest(self, deltas, server):
        return {}     # no single delta is seen

    def _aggregate(self, server, deltas):
        if not deltas or self._fleet.total is None:
            return self.algorithm.no_delta(server)
        return units.from_steps(self._fleet.total, server)

    def _traffic(self, instructions, replies, deltas):
        down = super()._traffic(instructions, replies, [])
        return down | {'bytes_up': self._fleet.masked_bytes,
                       'parameters_up': sum(value.size for value in self._fleet.total or []) * len(replies)}


class _Round:
    """As much of a Flower strategy as the workflow asks of it."""

    def __init__(self, asked):
        self._asked, self.results = asked, []

    def configure_fit(self, number, parameters, client_manager):
        return self._asked

    def aggregate_fit(self, number, results, failures):
        self.results = results
        return None, {}


def _read_reply(result):
    """The Reply in a client's result, whose delta is in the sum alone; ValueError if it is none."""
    reply = Reply(**json.loads(result.metrics['json']) | {'delta': b''})
    check_reply(reply)
    return reply


def _fit(instruction):
    record = fleet.pack_instruction(instruction)
    arrays = [record[name].to_numpy_ndarrays()[0] for name in ('server', 'shrink')]
    return FitIns(ndarrays_to_parameters(arrays), {'json': record['instruction']['json']})
