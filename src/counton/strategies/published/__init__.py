"""Strategies from papers, to compare with; plans also choose some of them for units that change few
steps.
"""
