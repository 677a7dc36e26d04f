"""The list of commands: their headings, the modules that define them, and where to begin."""

from __future__ import annotations

from typing import NamedTuple

#: Headings of the list of commands.
RELEASE = "Release"
PLAN = "Plan before you release"
READ = "Read and publish what was released"
KEEP = "Keep a state"


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


#: All commands by name, in their order under each heading.
COMMANDS = {
    "release": ListedCommand(
        RELEASE,
        "release_command",
        "Release a statistic: count, sum, average, top-k, hierarchy, ranges and others.",
    ),
    "init": ListedCommand(
        RELEASE,
        "init_command",
        "Make a job file for events, with a comment on each option.",
    ),
    "run": ListedCommand(
        RELEASE,
        "run_command",
        "Run the jobs of a file, one after the other.",
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
    "inspect": ListedCommand(
        READ,
        "inspect_command",
        "Show what a state or a released table holds: last numbers, guarantees, strategies.",
    ),
    "export": ListedCommand(
        READ,
        "export_command",
        "Write released numbers as a table, a chart or a web page, from a state or a table.",
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
    "annotate": ListedCommand(
        READ,
        "annotate_command",
        "Add a public note to a wrong number, in all later tables, pages, charts and texts.",
    ),
    "ledger": ListedCommand(
        KEEP,
        "ledger_command",
        "Show the privacy loss of all streams of a state, and set its budget.",
    ),
    "erase-user": ListedCommand(
        KEEP,
        "erase_user_command",
        "Delete what a state keeps of a user, or of all users of old periods (--older).",
    ),
    "close": ListedCommand(
        KEEP,
        "close_command",
        "Close a stream: it releases nothing more, and its privacy loss stays in the ledger.",
    ),
    "backup": ListedCommand(
        KEEP,
        "backup_command",
        "Copy a state that is a SQLite file, even while a run or a service writes it.",
    ),
    "verify": ListedCommand(
        KEEP,
        "verify_command",
        "Recompute every released value from sums and key, and compare with the journal.",
    ),
}

#: Tasks of a new user, and the command for each.
BEGIN_HERE = {
    "a number each day": "counton init visits.csv writes a job file for counton run; in one "
    "command: counton release count -h",
    "protect users": "--user COLUMN --max-contributions N, or user and max-contributions in the "
    "job file of counton init",
    "a table": "counton release contingency -h, hierarchy -h, ranges -h",
}
