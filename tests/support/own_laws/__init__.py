"""Tests of what this library's strategies and statistics state beyond the laws for all."""
