"""The list of commands: their headings, the modules that define them, and where to begin."""

from __future__ import annotations

from typing import NamedTuple

#: Headings of the list of commands.
RELEASE = "Release"
PLAN = "Plan, before anything is spent"
READ = "Read and publish what was released"
KEEP = "Keep a state"

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
    """A command in the list, which is loaded when it is called.

    Attributes:
        heading: the heading above it.
        module: its module in `counton.cli`, which has a command of the same name.
        summary: first sentence of its help; to load all commands for it would take long.
    """

    heading: str
    module: str
    summary: str


#: All other commands by name, in their order under each heading.
COMMANDS = {
    "statistic": ListedCommand(
        RELEASE,
        "statistic_group",
        "Release another statistic: average, quantiles, top-k, distinct users, reports.",
    ),
    "init": ListedCommand(
        RELEASE,
        "init_command",
        "Make a job file for events, with a comment on each option.",
    ),
    "run": ListedCommand(
        RELEASE,
        "run_command",
        "Run the jobs of a file, one after the other, as every night.",
    ),
    "serve": ListedCommand(
        RELEASE,
        "serve_command",
        "Run the jobs of a file as a service: it takes rows by HTTP and publishes on time.",
    ),
    "plan": ListedCommand(
        PLAN,
        "plan_command",
        "Show how accurate a release would be, before you spend anything: the exact error.",
    ),
    "show": ListedCommand(
        READ,
        "show_command",
        "Show what a state or a released table holds: last numbers, promises and strategies.",
    ),
    "export": ListedCommand(
        READ,
        "export_command",
        "Write what was released again, as a table, a chart or a web page, from a state or a "
        "table.",
    ),
    "methods": ListedCommand(
        READ,
        "methods_command",
        "Write the text that a website prints with the numbers: subject, time, protection, error.",
    ),
    "publish": ListedCommand(
        READ,
        "publish_command",
        "Write releases into plain database tables, for Grafana, Metabase or psql.",
    ),
    "ledger": ListedCommand(
        KEEP,
        "ledger_command",
        "Show how much privacy the streams of a state have spent, and set a limit.",
    ),
    "forget": ListedCommand(
        KEEP,
        "forget_command",
        "Delete what a state keeps of a person, or of all people of long ago (--older).",
    ),
    "end": ListedCommand(
        KEEP,
        "end_command",
        "End a stream: it releases nothing more, and what it has spent stays spent.",
    ),
    "mark": ListedCommand(
        KEEP,
        "mark_command",
        "Put a public note beside a wrong number, in all later tables, pages, charts and texts.",
    ),
    "backup": ListedCommand(
        KEEP,
        "backup_command",
        "Copy a state that is a SQLite file, even while a run or a service writes it.",
    ),
    "verify": ListedCommand(
        KEEP,
        "verify_command",
        "Compute every released value again, from sums and key, and compare with the journal.",
    ),
}

#: Aims of a new user, and the command to begin with.
BEGIN_HERE = {
    "a number each day": "counton init visits.csv writes a job file for counton run, with what is "
    "to be filled in; in one command: counton count -h",
    "protect people": "--user COLUMN --most N, or user and most in the job file of counton init",
    "a table": "counton contingency -h, hierarchy -h, ranges -h: once, or after each window",
}
