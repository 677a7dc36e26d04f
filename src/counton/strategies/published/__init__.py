"""Strategies from papers, for comparison; plans also choose some for units in few steps."""
