"""What happens beside the rounds, a file each: JSON lines, TensorBoard, the progress bar, pictures."""
from virtual_tf.runs.hooks.base import Hook
from virtual_tf.runs.hooks.json_lines import JsonLines
from virtual_tf.runs.hooks.progress_bar import ProgressBar
from virtual_tf.runs.hooks.score_pictures import ScorePictures
from virtual_tf.runs.hooks.snr_distributions import SnrDistributions
from virtual_tf.runs.hooks.tensorboard import TensorBoard

__all__ = ['Hook', 'JsonLines', 'ProgressBar', 'ScorePictures', 'SnrDistributions', 'TensorBoard']
