"""Private weights φ_i beside the shared ones: the settings of every method that can have them."""
from virtual_tf.core.settings import Setting

SETTINGS = {
    'private': Setting(
        'none', 'private weights φ_i: none, trained jointly with θ (the paper), or on what θ leaves over',
        ('none', 'joint', 'residual')),
    'gate_init': Setting(0.3, 'initial gate g of the lateral connections', above=0.0),
    'private_mean_init': Setting('glorot', 'initial means of φ_i, as mean_init', ('normal', 'glorot')),
    'private_mean_scale': Setting(0.01, 'standard deviation of these means with private_mean_init=normal', low=0.0),
}
