"""The command ``counton backup``."""

from __future__ import annotations

from pathlib import Path

import click

from counton.cli.command_class import CountonCommand, option


@click.command("backup", cls=CountonCommand)
@click.argument("state", help="SQLite file that keeps the streams. It is secret.")
@option(
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="File for the copy; a file that exists is never overwritten.",
)
def backup(state: str, output: Path) -> None:
    """Copy a state that is a SQLite file, even while a run or a service writes it.

    The copy lacks the key and the rollback guard; keep these in another place.
    """
    from counton.cli.print_forms import Console
    from counton.state.backup import back_up

    copy = back_up(state, output)
    Console().write_line(
        f"copied to {copy}; the copy holds exact sums, so it is as secret as the state; once the "
        "state has released more, a restored copy is refused"
    )
