"""The question to a person at a terminal before the first release of a new stream."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from counton.cli.exits import ExitCode
from counton.cli.print_forms import Console

if TYPE_CHECKING:
    from counton.run.settlement import SettledJob


def ask_before(settled: SettledJob, ended: int, console: Console) -> None:
    """Ask whether a new stream may begin, because its privacy loss and its publication cannot be
    undone.

    Nobody is asked if the stream exists, the job states ``yes``, or there is no terminal.

    Args:
        ended: number of windows that would be released at once.

    Raises:
        SystemExit: the answer is not yes; nothing is released or kept.
    """
    needed = settled.saved is None and not settled.job.times.yes
    if not (needed and console.is_terminal and sys.stdin.isatty()):
        return
    console.write_line(_in_one_line(settled, ended))
    try:
        answer = console.ask_line("Release? [y/N] ")
    except (EOFError, KeyboardInterrupt):
        answer = ""
    if answer.lower() not in ("y", "yes"):
        console.write_line("nothing is released or spent")
        raise SystemExit(int(ExitCode.FAILED))


def _in_one_line(settled: SettledJob, ended: int) -> str:
    from counton.cli.look_commands import publishes
    from counton.released.stream_words import groups_in_words, statistic_in_words

    definition, cut = settled.definition, settled.definition.cut
    what = statistic_in_words(definition).removesuffix(",")
    if definition.domain:
        what += f" by {groups_in_words(definition)} ({len(definition.domain):,} groups)"
    if cut.goes_on:
        most = definition.strategy.horizon
        ever = "without an end" if most is None else f"of {most:,} {cut.noun}s"
        now = f"{ended:,} {cut.noun}{'s' * (ended != 1)}"
        what += f": {publishes(definition.release)} {ever}, {now} now"
    loss = str(definition.guarantee).partition(" with ")[2] or str(definition.guarantee)
    return (
        f"New stream {settled.job.keeping.name!r} publishes the {what}, and spends {loss} of the "
        f"privacy of each {definition.unit}. Neither can be taken back."
    )
