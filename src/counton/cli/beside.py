"""The commands that stand beside `statistic`: statistics that most people ask for first."""

from __future__ import annotations

#: By their names, with a line for the list of commands, which loads none of them.
BESIDE = {
    "count": "Release the running number of events after each window, by group.",
    "sum": "Release the running sum of a column: values clipped to bounds and put on a grid.",
    "hierarchy": (
        "Release counts at all levels of a hierarchy; they add up, over space and over time."
    ),
    "contingency": (
        "Release a contingency table with all its margins; they add up, at every step too."
    ),
    "ranges": "Release a line of counts so that every interval is accurate, at every step too.",
}
