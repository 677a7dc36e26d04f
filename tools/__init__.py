"""Searches whose results are shipped as data, and what writes a page as a notebook."""
