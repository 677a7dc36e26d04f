"""The command ``counton annotate``."""

from __future__ import annotations

import click

from counton.cli.command_class import CountonCommand, option
from counton.cli.parameters import state_argument


@click.command("annotate", cls=CountonCommand)
@state_argument
@option("--window", required=True, help="A moment in the window, as in 2019-01-20.")
@option("--note", required=True, help="One line that says why the number is wrong.")
@option("--group", help="The group whose number is wrong. [default: all]")
@option("--stream", help="Name of the stream; needed if there are several.")
@option(
    "--withdraw",
    is_flag=True,
    help="Take the number out of later tables; what was published stays published.",
)
def annotate(
    *, state: str, window: str, note: str, group: str | None, stream: str | None, withdraw: bool
) -> None:
    """Add a public note to a wrong number, in all later tables, pages, charts and texts.

    The window and the note are published as you write them. The privacy guarantee does not cover
    your choice of the window, if exact numbers led to it. The stream continues.
    """
    from counton.cli.print_forms import Console
    from counton.run import notes

    window_note = notes.annotate(state, window, note, stream=stream, group=group, withdraw=withdraw)
    done = "withdrawn" if window_note.withdrawn else "annotated"
    Console().write_line(
        f"window {window_note.step:,} is {done} in all later tables and texts. Earlier files stay "
        "as they are: publish them again"
    )
