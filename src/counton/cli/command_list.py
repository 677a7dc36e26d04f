"""The list of commands: headings, and which statistics have commands at the top level."""

from __future__ import annotations

#: Headings of the list of commands.
RELEASE, PLAN = "Release", "Plan, before anything is spent"
READ, KEEP = "Read and publish what was released", "Keep a state"
OTHER = "Commands"
HEADINGS = (RELEASE, PLAN, READ, KEEP, OTHER)

#: Statistics that are commands of their own, with their lines in the list of commands. The list
#: loads none of these statistics.
BESIDE = {
    "count": "Release the running number of events after each window, by group.",
    "sum": "Release the running sum of a column, by group.",
    "hierarchy": "Release counts at all levels of a hierarchy, such as region and city.",
    "contingency": "Release a contingency table with all its margins.",
    "ranges": "Release counts along a line, such as age, so that every interval is accurate.",
}

#: Aims of a new user, and the command to begin with.
INTENTS = {
    "a number each day": "counton init visits.csv writes a job file for counton run, with what is "
    "to be filled in; in one command: counton count -h",
    "protect people": "--user COLUMN --most N, or user and most in the job file of counton init",
    "a table": "counton contingency -h, hierarchy -h, ranges -h: once, or after each window",
}
