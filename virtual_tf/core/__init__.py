"""What every room stands on; errors, settings and bytes need no TensorFlow."""
