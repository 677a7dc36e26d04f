"""The command ``counton close``."""

from __future__ import annotations

import click

from counton.cli.command_class import CountonCommand, option
from counton.cli.parameters import state_argument


@click.command("close", cls=CountonCommand)
@state_argument
@option("--stream", help="Name of the stream; needed if there are several.")
@option("--drop-waiting", is_flag=True, help="Drop the rows that still wait to be counted.")
@option(
    "--withdrawn",
    metavar="WORDS",
    help="Mark the numbers as withdrawn, with these public words: why, and what replaces them. "
    "The description of every later table, chart, page, published database and methods text says "
    "so; files written before do not. A table released once can be withdrawn too.",
)
def close(*, state: str, stream: str | None, drop_waiting: bool, withdrawn: str | None) -> None:
    """Close a stream: it releases nothing more, and its privacy loss stays in the ledger.

    While rows wait to be counted, the command stops with exit code 2. --drop-waiting drops them.
    """
    from counton.cli.print_forms import CONFIDENTIAL, Console
    from counton.run.close_stream import close_stream
    from counton.run.outputs.exports import only_name
    from counton.state import Store

    if stream is None:
        with Store(state) as store:
            stream = only_name(store.streams)
    closed = close_stream(state, stream, drop_waiting=drop_waiting, withdrawn=withdrawn)
    dropped = closed.confidential_counts()
    if dropped:
        Console(stderr=True).write_line(
            f"{CONFIDENTIAL}: rows that waited and are not counted: {dropped:,}"
        )
    console = Console()
    if withdrawn is not None:
        console.write_line(
            f"{stream!r} is withdrawn, and releases nothing more; publish its tables and pages "
            f"once more: counton export {state} --stream {stream} --output FILE; readers see it "
            "on the page, in the methods text and in the description beside a table, not in a "
            "CSV itself"
        )
        return
    with Store(state) as store:
        suspicion = store.reader(stream).rollback_suspicion()
    console.write_line(
        f"stream {stream!r} is closed at window {closed.step:,}; begin another one by --stream"
    )
    if suspicion is not None:
        console.write_line(f"note: {suspicion}")
