"""The same steps written plainly in JAX, vmap over clients and scan over steps: what another compiler makes of them.

Clients of equal size, no masks, no guards, no private path. JAX is in no requirements file; without it scripts.bench
leaves these rows out.
"""
import jax
import jax.numpy as jnp
import numpy as np

RATE, KL_WEIGHT, MIN_SCALE, MAX_SCALE, TINY_VARIANCE = 0.1, 1e-5, 0.002, 1.0, 1e-20


def cross_entropy(layer, weights, x, y):
    """Mean over the batch, of a network of these layers with rectifiers between them."""
    for i, weight in enumerate(weights):
        x = layer(i, weight, x)
        x = jax.nn.relu(x) if i + 1 < len(weights) else x
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], axis=1))


def fedavg_step(weights, x, y, key, target, size):
    gradients = jax.grad(lambda weights: cross_entropy(lambda i, kernel, x: x @ kernel, weights, x, y))(weights)
    return [weight - RATE * gradient for weight, gradient in zip(weights, gradients)]


def virtual_step(weights, x, y, key, target, size):
    """Local reparameterisation, and SGD in (mean, scale) that is implicit in the KL term."""
    def layer(i, weight, x):
        mean, scale = weight
        variance = jnp.square(x) @ jnp.square(scale)
        noise = jax.random.normal(jax.random.fold_in(key, i), (x.shape[0], mean.shape[1]))
        return x @ mean + jnp.sqrt(jnp.maximum(variance, TINY_VARIANCE)) * noise

    def move(weight, gradient, target):
        (mean, scale), (d_mean, d_scale), (chi, xi), w = weight, gradient, target, KL_WEIGHT / size
        d_mean = (d_mean + w * (xi * mean - chi)) / (1 + RATE * w * xi)
        d_scale = (d_scale + w * (xi * scale - 1 / scale)) / (1 + RATE * w * (xi + 1 / scale ** 2))
        return mean - RATE * d_mean, jnp.clip(scale - RATE * d_scale, MIN_SCALE, MAX_SCALE)

    gradients = jax.grad(lambda weights: cross_entropy(layer, weights, x, y))(weights)
    return [move(*parts) for parts in zip(weights, gradients, target)]


STEPS = {'fedavg': fedavg_step, 'virtual': virtual_step}


def make_round(method, clients, size, batch, epochs, layers):
    """A function that trains so many clients for a round."""
    def train(weights, x, y, plan, key, target):
        def one(weights, t):
            return STEPS[method](weights, x[plan[t]], y[plan[t]], jax.random.fold_in(key, t), target, size), None
        return jax.lax.scan(one, weights, jnp.arange(plan.shape[0]))[0]

    generator = np.random.default_rng(0)
    kernels = [generator.normal(0, 0.05, (clients, *shape)).astype(np.float32) for shape in layers]
    beliefs = [(kernel, np.full_like(kernel, 0.02)) for kernel in kernels]
    target = [(2500.0 * kernel, np.full_like(kernel, 2500.0)) for kernel in kernels]
    x = generator.uniform(size=(clients, size, layers[0][0])).astype(np.float32)
    y = generator.integers(0, layers[-1][1], (clients, size))
    plan = np.stack([np.concatenate([generator.permutation(size) for _ in range(epochs)]).reshape(-1, batch)
                     for _ in range(clients)])
    keys = jax.random.split(jax.random.key(0), clients)
    compiled = jax.jit(jax.vmap(train))
    arguments = jax.device_put((beliefs if method == 'virtual' else kernels, x, y, plan, keys, target))
    return lambda: jax.block_until_ready(compiled(*arguments))
