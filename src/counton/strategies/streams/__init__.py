"""Strategies for streams: running totals, or counts of steps, with noise that many steps share."""
