"""The list of commands: their headings, the modules that define them, and where to begin."""

from __future__ import annotations

from typing import NamedTuple

#: Headings of the list of commands.
RELEASE, PLAN = "Release", "Plan, before anything is spent"
READ, KEEP = "Read and publish what was released", "Keep a state"

#: Statistics that are commands of their own, with their lines in the list of commands. The list
#: loads none of these statistics.
STATISTICS_AT_TOP = {
    "count": "Release the running number of events after each window, by group.",
    "sum": "Release the running sum of a column, by group.",
    "hierarchy": "Release counts at all levels of a hierarchy, such as region and city.",
    "contingency": "Release a contingency table with all its margins.",
    "ranges": "Release counts along a line, such as age, so that every interval is accurate.",
}
#: Those of them that the group ``counton statistic`` does not list as well.
STATISTICS_AT_TOP_ALONE = ("count", "sum")


class ListedCommand(NamedTuple):
    """A command in the list, which is loaded when it is called or when the list is shown.

    Attributes:
        heading: the heading above it.
        module: its module in `counton.cli`, which has a command of the same name.
    """

    heading: str
    module: str


#: All other commands by name, in their order under each heading.
COMMANDS = {
    "statistic": ListedCommand(RELEASE, "statistic_group"),
    "init": ListedCommand(RELEASE, "init_command"),
    "run": ListedCommand(RELEASE, "run_command"),
    "serve": ListedCommand(RELEASE, "serve_command"),
    "plan": ListedCommand(PLAN, "plan_command"),
    "show": ListedCommand(READ, "show_command"),
    "export": ListedCommand(READ, "export_command"),
    "methods": ListedCommand(READ, "methods_command"),
    "publish": ListedCommand(READ, "publish_command"),
    "ledger": ListedCommand(KEEP, "ledger_command"),
    "forget": ListedCommand(KEEP, "forget_command"),
    "end": ListedCommand(KEEP, "end_command"),
    "mark": ListedCommand(KEEP, "mark_command"),
    "backup": ListedCommand(KEEP, "backup_command"),
    "verify": ListedCommand(KEEP, "verify_command"),
}

#: Aims of a new user, and the command to begin with.
BEGIN_HERE = {
    "a number each day": "counton init visits.csv writes a job file for counton run, with what is "
    "to be filled in; in one command: counton count -h",
    "protect people": "--user COLUMN --most N, or user and most in the job file of counton init",
    "a table": "counton contingency -h, hierarchy -h, ranges -h: once, or after each window",
}
