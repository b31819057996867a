"""A hook is told of every round."""


class Hook:
    """Does nothing; a hook overrides what it needs."""

    def on_round(self, metrics, simulation, state):
        """After each round, with the state as it then is."""

    def flush(self):
        """Before each checkpoint: what was told so far must survive the process."""

    def on_end(self, summary):
        """After the last round."""

    def close(self):
        """Always, also after an error."""
