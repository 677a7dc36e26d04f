"""The rows of a run: where they come from, and their sums by window and group."""
