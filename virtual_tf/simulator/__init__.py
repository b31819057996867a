"""The star network in one process: rounds, scores, client states, checkpoints."""
