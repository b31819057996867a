"""SavedModel: the network with the belief about its weights, for any number of examples.

    predict(x)                   probabilities at the mean weights
    sample(x, seed, samples)     probabilities, entropy and mutual information over networks that the seed draws
"""
import tensorflow as tf
import tensorflow_probability as tfp

from virtual_tf.networks import layers, uncertainty

tfd = tfp.distributions


class _Network(tf.Module):
    """The weights as variables, which both signatures share."""

    def __init__(self, parts, weights):
        super().__init__()
        self._parts = parts
        self._variables = tf.nest.map_structure(_variable, weights)
        x, number = parts.signature(), [tf.TensorSpec([], tf.int32, name) for name in ('seed', 'samples')]
        self.predict = tf.function(self._predict, input_signature=[x], autograph=False)
        self.sample = tf.function(self._sample, input_signature=[x, *number], autograph=False)

    def _weights(self):
        return tf.nest.map_structure(lambda stored: stored.value(), self._variables)

    def _predict(self, x):
        return {'probabilities': tf.exp(self._parts.at_means(self._weights(), x))}

    def _sample(self, x, seed, samples):
        # Without XLA, which not every runtime has.
        log_mean, entropies = self._parts.sampled(self._weights(), x, seed, tf.maximum(samples, 1), compiled=False)
        return {'probabilities': tf.exp(log_mean), 'entropy': uncertainty.entropy(log_mean),
                'mutual_information': uncertainty.mutual_information(log_mean, entropies)}


class _Stored(tf.Module):
    """A weight: a number, or the mean and deviation of one."""

    def __init__(self, weight):
        super().__init__()
        self._gaussian = layers.is_gaussian(weight)
        self._values = [tf.Variable(value) for value in ([weight.loc, weight.scale] if self._gaussian else [weight])]

    def value(self):
        return tfd.Normal(*self._values) if self._gaussian else tf.convert_to_tensor(self._values[0])


def _variable(weight):
    return _Stored(weight)


def write(model, path, draws, seed):
    """The folder of a SavedModel; it has the posterior itself, so draws and seed are given when it is asked."""
    module = _Network(model.parts, model.beliefs)
    tf.saved_model.save(module, str(path), signatures={'predict': module.predict, 'sample': module.sample},
                        options=tf.saved_model.SaveOptions(experimental_custom_gradients=False))
