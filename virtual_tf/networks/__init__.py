"""Layers, models and the likelihood of a batch."""
