"""`synthetic`: Synthetic(α, β) and its IID form (Sahu et al. 2018, Caldas et al. 2018), generated from the seed.

Client k: y = argmax softmax(W_k x + b_k), x ~ N(v_k, Σ) of 60 features, Σ diagonal with Σ_jj = j^(−1.2);
W_k, b_k ~ N(u_k, 1), u_k ~ N(0, α) sets how much models differ; v_k ~ N(B_k, 1), B_k ~ N(0, β) how much data do.
IID: one W, b ~ N(0, 1) and v = 0 for all. Client sizes are 50 + a lognormal(4, 2).
"""
import numpy as np

from virtual_tf.core.random_streams import SPLIT, make_generator
from virtual_tf.data.federated import TEST_SHARE, FederatedDataset, Split

FEATURES, CLASSES = 60, 10


def load(data_dir, settings):
    generator = make_generator(settings.seed, SPLIT)
    alpha, beta, iid = settings.synthetic_alpha, settings.synthetic_beta, settings.synthetic_iid
    scale = np.arange(1, FEATURES + 1) ** -0.6     # the root of Σ_jj
    sizes = 50 + generator.lognormal(4.0, 2.0, settings.synthetic_clients).astype(int)
    # A lognormal's tail holds clients of a hundred thousand examples, which would set the length of every round.
    sizes = np.minimum(sizes, settings.synthetic_max_size)
    common = generator.normal(size=(FEATURES, CLASSES)), generator.normal(size=CLASSES)
    train, test = [], []
    for size in sizes:
        if iid:
            kernel, bias, centre = *common, np.zeros(FEATURES)
        else:
            u, b = generator.normal(0.0, np.sqrt(alpha)), generator.normal(0.0, np.sqrt(beta))
            kernel, bias = generator.normal(u, 1.0, (FEATURES, CLASSES)), generator.normal(u, 1.0, CLASSES)
            centre = generator.normal(b, 1.0, FEATURES)
        x = generator.normal(centre, scale, (size, FEATURES))
        y = np.argmax(x @ kernel + bias, axis=1).astype(np.int32)
        x, held = x.astype(np.float32), max(1, round(TEST_SHARE * size))
        train.append((x[held:], y[held:]))
        test.append((x[:held], y[:held]))
    names = tuple(f'synthetic {k}' for k in range(len(sizes)))
    return FederatedDataset('synthetic', names, Split.of(train), Split.of(test), CLASSES)
