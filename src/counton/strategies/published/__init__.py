"""Strategies from papers, for comparison; plans choose some of them if a unit changes few steps."""
