"""One run: its driver, its folder, what watches it."""
