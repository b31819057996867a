"""pyplot for pictures in files: without a window, unless it was chosen where pictures go, as in a notebook."""
import os
import sys

import matplotlib

if 'matplotlib.pyplot' not in sys.modules and 'MPLBACKEND' not in os.environ:
    matplotlib.use('Agg')
import matplotlib.pyplot as plt

__all__ = ['plt']
