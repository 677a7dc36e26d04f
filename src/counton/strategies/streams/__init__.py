"""Strategies for streams: running totals with noise that many steps share, one idea in each
file.
"""
