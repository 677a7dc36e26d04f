"""The command ``counton methods``."""

from __future__ import annotations

import click

from counton.cli.command_class import CountonCommand, option
from counton.cli.parameters import json_option, state_or_table_argument


@click.command("methods", cls=CountonCommand)
@state_or_table_argument
@option("--stream", help="Write about this stream or table only. [default: all]")
@option(
    "--confidence-level",
    type=float,
    metavar="NUMBER",
    help="Confidence level of the intervals. [default: as in the files]",
)
@option("--full", is_flag=True, help="Write the whole account, for specialists.")
@json_option
def methods(
    *, state: str, stream: str | None, confidence_level: float | None, full: bool, as_json: bool
) -> None:
    """Write the text that a website prints with the numbers: subject, time, protection, error.

    Some five sentences for everybody; the whole account (attacker, mechanism, what is not
    protected, sources) is --full. A state is enough, or a released table.
    """
    from counton.cli.print_forms import Console, print_json, tell_of_old_copies
    from counton.results.release_files import read_public
    from counton.run.outputs.exports import methods as methods_of_state
    from counton.state import Store

    released = read_public(state, stream=stream, confidence_level=confidence_level)
    if released is not None:
        texts = {released.numbers.design.name: released.methods(full=full)}
    else:
        with Store(state) as store:
            texts = methods_of_state(
                store, stream=stream, confidence_level=confidence_level, full=full
            )
            tell_of_old_copies(store, texts)
    if as_json:
        print_json({"state": state, "methods": texts})
        return
    console = Console()
    for number, (name, text) in enumerate(texts.items()):
        if number:
            console.write_line("")
        if len(texts) > 1:
            console.write_line(name, bold=True)
        console.write_line(text)
