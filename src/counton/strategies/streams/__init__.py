"""Strategies for streams: prefix sums with noise on nodes over time, one idea a file."""
