# %% [markdown]
# # A federation from its data to an app
#
# Twenty wrists with a smartwatch do seven exercises; each keeps its recordings to itself. VIRTUAL learns one posterior
# that all share, and a model of each wrist's own. This notebook plays a run, looks at it, asks a client how sure it is,
# brings data of its own, compares two methods and writes a file for an app. It takes about two minutes on two cores;
# `docs/tutorial.py` is the same for those without Jupyter.

# %%
import pathlib
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

import virtual_tf as vt

ROUNDS = 20
root = pathlib.Path(tempfile.mkdtemp())

# %% [markdown]
# ## Data
#
# A federated data set has a training and a test part for each client. `watch` comes with the package; other names, and
# files of your own, are in [data.md](data.md).

# %%
settings = vt.make_settings(method='virtual', dataset='watch', rounds=ROUNDS)
dataset = vt.load_data(settings)
print(f'{len(dataset.clients)} clients, {len(dataset.train.y)} examples to train on, {len(dataset.test.y)} to test')
print(f'an example has {dataset.input_shape[0]} features, there are {dataset.num_classes} classes')

# %% [markdown]
# ## A run
#
# A run's folder keeps everything. The same call continues a run that was interrupted, and gives a finished one back.

# %%
summary, history = vt.run(settings, dataset, root / 'virtual', progress=False)
print({name: round(value, 3) for name, value in summary['final'].items() if name.endswith('/accuracy')})

# %% [markdown]
# ## Curves
#
# S is the server's model on all test data, MT each client's own model on its own test data.

# %%
run = vt.open_run(root / 'virtual')
table = run.history
for name, label in (('server/accuracy', 'S'), ('mt/accuracy', 'MT')):
    plt.plot(table['round'], 100 * table[name], label=label)
plt.xlabel('round')
plt.ylabel('accuracy, %')
plt.legend()
plt.show()

# %% [markdown]
# ## How sure is a client?
#
# `predict` averages over networks drawn from the posterior. The entropy is all of the uncertainty; the mutual
# information is the part of it that more data would remove. Noise that is no exercise at all has more of both.

# %%
client = run.client('subject 3 left')
x, y = dataset.test.client(run.clients.index(client.name))
noise = np.random.default_rng(0).normal(size=x.shape).astype(x.dtype) * 5
for name, examples in (('its own exercises', x), ('noise', noise)):
    found = client.predict(examples, samples=50)
    print(f'{name}: entropy {found.entropy.mean():.3f}, mutual information {found.mutual_information.mean():.4f} nats')
print(f'right: {np.mean(client.predict(x).probabilities.argmax(axis=-1) == y):.3f}')
print(f'the posterior of its first layer: {client.posterior["dense_1/kernel"]}')

# %% [markdown]
# ## Data of your own
#
# An archive with `x`, `y` and `client` is a data set: `--dataset=npz:FILE`. One new client may also join a finished
# run: it trains from the posterior of all others, and the run is not changed.

# %%
newcomer = 'subject 7 right'
others = [i for i, name in enumerate(dataset.clients) if name != newcomer]
own_x, own_y = dataset.train.client(dataset.clients.index(newcomer))
test_x, test_y = dataset.test.client(dataset.clients.index(newcomer))
vt.run(settings, dataset.part(others), root / 'without', progress=False)
without = vt.open_run(root / 'without')
adapted = without.adapt(own_x, own_y, epochs=20, name=newcomer)
for name, model in (('the server, which has not seen it', without.server), ('after 20 epochs of its own', adapted)):
    print(f'{name}: accuracy {model.evaluate(test_x, test_y)["accuracy"]:.3f}')

# %% [markdown]
# ## A comparison
#
# The same seed gives every method the same clients, round by round.

# %%
baseline = vt.make_settings(method='fedavg', dataset='watch', rounds=ROUNDS)
vt.run(baseline, dataset, root / 'fedavg', progress=False)
for method in ('virtual', 'fedavg'):
    final = vt.open_run(root / method).history
    print(f'{method:8} S {100 * final["server/accuracy"][-1]:.1f} %, MT {100 * final["mt/accuracy"][-1]:.1f} %')

# %% [markdown]
# In the shell, `virtual-tf report` makes a page of both, with curves, reliability and settings side by side.
#
# ## A file for an app
#
# SavedModel, TensorFlow Lite and Keras files load where this package is not. An ensemble of fixed draws knows what it
# does not know, on a phone too ([using.md](using.md)).

# %%
for name, draws in (('mean', 0), ('ensemble', 10)):
    path = client.export(root / name, 'tflite', draws=draws)
    answer = tf.lite.Interpreter(str(path)).get_signature_runner()(x=x)['probabilities']
    difference = np.abs(answer - client.predict(x, samples=draws).probabilities).max()
    print(f'{path.name}: {path.stat().st_size:,} bytes, same probabilities: {difference < 1e-4}')
