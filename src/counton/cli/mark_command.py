"""The command ``counton mark``."""

from __future__ import annotations

import click

from counton.cli.command_class import CountonCommand, option
from counton.cli.parameters import state_argument


@click.command("mark", cls=CountonCommand)
@state_argument
@option("--window", required=True, help="A moment in the window, as in 2019-01-20.")
@option("--note", required=True, help="One line that says why the number is wrong.")
@option("--group", help="The group whose number is wrong. [default: all]")
@option("--name", help="Name of the stream; needed if there are several.")
@option(
    "--withdraw",
    is_flag=True,
    help="Take the number out of later tables; what was published stays published.",
)
def mark(
    state: str, window: str, note: str, group: str | None, name: str | None, withdraw: bool
) -> None:
    """Put a public note beside a wrong number, in all later tables, pages, charts and texts.

    Day and note are published as they are written, and nothing protects a choice that was made by
    exact numbers. The stream goes on.
    """
    from counton.cli.print_forms import Console
    from counton.run.notes import mark as mark_window

    marked = mark_window(state, window, note, name=name, group=group, withdraw=withdraw)
    done = "withdrawn" if marked.withdrawn else "marked"
    Console().write_line(
        f"window {marked.step:,} is {done} in all later tables and texts; what was published "
        "stays as it is: publish it once more"
    )
