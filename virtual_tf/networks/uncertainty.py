"""How sure a prediction is, and whether it is the weights or the data that leave it open.

    H[E p]                 entropy of the mean prediction: all of the uncertainty
    E H[p]                 mean entropy of the predictions of single networks: what better weights would not remove
    H[E p] − E H[p]        mutual information of label and weights: what more data would remove (Houlsby et al. 2011)

The expectation E is over networks drawn from the weights' posterior; entropies are in nats.
"""
import tensorflow as tf
import tensorflow_probability as tfp

from virtual_tf.core import random_streams
from virtual_tf.networks import gated, layers


def entropy(log_probabilities):
    """−Σ p log p over the classes: […, classes] → […]; a class of probability 0 adds nothing."""
    # 0 times the smallest number is 0, and 0 times −∞ is not.
    return -tf.reduce_sum(tf.exp(log_probabilities) * tf.maximum(log_probabilities, tf.float32.min), axis=-1)


def mutual_information(log_mean, mean_entropy):
    """H[E p] − E H[p]: [B, …, classes] and [B, …] → [B, …]; never negative but by rounding, which is cut off."""
    return tf.maximum(entropy(log_mean) - mean_entropy, 0.0)


def draw_network(weights, keys, compiled=True):
    """One network of the posterior for each of the keys [C, 2]: Weights of tensors [C, …]."""
    stream = random_streams.Stream(keys, compiled=compiled)
    return gated.Weights(*({name: layers.draw(weight, stream) for name, weight in path.items()}
                           for path in (weights.shared, weights.private)), weights.gates)


def predict(network, weights, x, keys, samples, compiled=True):
    """log E p [C, B, …, classes] and E H[p] [C, B, …] over so many networks, drawn by the keys [C, 2].

    Every example meets the same networks, so what it gets does not depend on its batch. One network is held at a time.
    """
    *_, shape = (layer.output_shape(shape) for _, layer, shape in network.walk())
    rows = layers.sizes(x)[:2]

    def add(i, log_sum, entropies):
        drawn = draw_network(weights, random_streams.fold_in(keys, i[tf.newaxis]), compiled)
        log_probabilities = tf.nn.log_softmax(gated.logits(network, drawn, x))
        return (i + 1, tfp.math.log_add_exp(log_sum, log_probabilities), entropies + entropy(log_probabilities))

    samples = tf.convert_to_tensor(samples, tf.int32)
    _, log_sum, entropies = tf.while_loop(lambda i, *_: i < samples, add, (
        tf.constant(0), tf.fill([*rows, *shape], float('-inf')), tf.zeros([*rows, *shape[:-1]])))
    count = tf.cast(samples, tf.float32)
    return log_sum - tf.math.log(count), entropies / count
