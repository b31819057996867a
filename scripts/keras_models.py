"""The reference that scripts.bench compares with: one tf_keras model a client, plain or of TFP's layers."""
import tensorflow_probability as tfp
import tf_keras

HIDDEN, KL_WEIGHT = 100, 1e-5


def has_bayesian(model):
    """TFP has no recurrent layer."""
    return model != 'lstm'


def make(model, classes, bayesian, examples):
    """A compiled model; each weight's KL counts once and divided by the number of examples, as in the free energy."""
    def divergence(q, p, _):
        return tfp.distributions.kl_divergence(q, p) * (KL_WEIGHT / examples)

    def dense(units, activation=None):
        if not bayesian:
            return tf_keras.layers.Dense(units, activation=activation, use_bias=False)
        return tfp.layers.DenseLocalReparameterization(
            units, activation=activation, bias_posterior_fn=None, kernel_divergence_fn=divergence)

    def conv(filters):
        if not bayesian:
            return tf_keras.layers.Conv2D(filters, 5, padding='same', activation='relu', use_bias=False)
        return tfp.layers.Convolution2DReparameterization(
            filters, 5, padding='same', activation='relu', bias_posterior_fn=None, kernel_divergence_fn=divergence)

    perceptron = [tf_keras.layers.Flatten(), dense(HIDDEN, 'relu'), dense(HIDDEN, 'relu'), dense(classes)]
    layers = {
        'mlp': perceptron,
        'conv': [conv(32), tf_keras.layers.MaxPool2D(), conv(64), tf_keras.layers.MaxPool2D(), *perceptron],
        'lstm': [tf_keras.layers.Embedding(classes, 8), tf_keras.layers.LSTM(HIDDEN, return_sequences=True),
                 tf_keras.layers.LSTM(HIDDEN, return_sequences=True), dense(classes)],
    }[model]
    network = tf_keras.Sequential(layers)
    network.compile(tf_keras.optimizers.legacy.SGD(0.1),
                    tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return network
