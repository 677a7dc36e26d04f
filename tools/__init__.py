"""Searches whose results are shipped as data."""
