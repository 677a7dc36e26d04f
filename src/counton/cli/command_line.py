"""A command as one would type it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

_WIDTH = 94


def command_line(command: str, argument: str, options: Mapping[str, object]) -> str:
    r"""The command that does the same, in lines that fit a page.

    Args:
        command: its name.
        argument: the file it reads.
        options: in the order shown; None is left out, True is a flag.

    >>> options = {"--by": None, "--steps": 6, "--append": True}
    >>> print(command_line("count", "my visits.csv", options))
    counton count 'my visits.csv' --steps 6 --append
    """
    lines = [f"counton {command} {shlex.quote(argument)}"]
    for option, value in options.items():
        if value is None:
            continue
        word = option if value is True else f"{option} {shlex.quote(str(value))}"
        if len(lines[-1]) + len(word) > _WIDTH:
            lines.append("     ")
        lines[-1] += f" {word}"
    return " \\\n".join(lines)
