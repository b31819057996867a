"""The client's side of SecAgg+; three of its four messages a round need no TensorFlow, so it is not imported here."""
from flwr.client.mod import secaggplus_mod
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS


def mask_when_asked(message, context, call_next):
    """Flower's SecAgg+ for messages of such a run; others pass."""
    asked = RECORD_KEY_CONFIGS in message.content.config_records
    return secaggplus_mod(message, context, call_next) if asked else call_next(message, context)
