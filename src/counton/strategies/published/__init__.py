"""Strategies of the papers that no plan chooses: to compare with, and to read old states."""
