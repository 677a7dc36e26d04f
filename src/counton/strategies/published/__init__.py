"""Strategies from papers, for comparison; plans choose some when units change few steps."""
