"""The paper in one folder: Algorithm 1 (method), Eq. 3 (free_energy), App. B (gaussian), sparse updates (pruning)."""
from virtual_tf.methods.virtual import method

__all__ = ['method']
