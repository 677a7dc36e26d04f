"""The command ``watch``: alarms over releases."""

from __future__ import annotations

from counton.cli.exits import ExitCode
from counton.cli.print_forms import Console, print_json
from counton.cli.show_options import WatchOptions
from counton.released.release_facts import promise_of
from counton.released.watching import watch
from counton.run.exports import released_in
from counton.run.job_alarms import report
from counton.run.read_back import read_public


def perform(options: WatchOptions) -> None:
    """Read a release, find alarms and print them; end with the exit code of an alarm if the newest
    window has one.
    """
    released = read_public(options.source, name=options.name, token=options.token)
    if released is None:
        released = released_in(options.source, options.name)
    found = watch(
        released,
        options.groups,
        false_alarms=options.false_alarms,
        over=options.over,
        change=options.change,
        trend=options.trend,
    )
    if options.json:
        delays = {
            group: {"change": size, "windows": None if delay is None else round(delay, 2)}
            for group, (size, delay) in found.of_change.items()
        }
        print_json({**report(found), "delays": delays, "about": promise_of(found.released.numbers)})
    else:
        console = Console()
        console.write_line(found.released.describe().splitlines()[0], bold=True)
        table = found.table()
        if table.height:
            console.write_released(table)
        else:
            console.write_line("No alarm.")
        console.write_folded(found.describe())
    if found.newest:
        raise SystemExit(int(ExitCode.ALARM))
