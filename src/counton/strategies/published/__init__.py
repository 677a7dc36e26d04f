"""Strategies from papers, for comparison; plans also choose some of them for units that change few
steps.
"""
