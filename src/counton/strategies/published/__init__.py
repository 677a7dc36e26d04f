"""Strategies of the papers, to compare with; plans choose some where units change few steps."""
