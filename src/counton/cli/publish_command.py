"""The command ``counton publish``."""

from __future__ import annotations

from dataclasses import asdict

import click

from counton.cli.command_class import CountonCommand, option
from counton.cli.parameters import json_option, state_argument


@click.command("publish", cls=CountonCommand)
@state_argument
@option(
    "--to",
    help="Database to publish into, a SQLite file or a URL. [default: the state's own]",
)
@option("--stream", help="Name of the stream; needed if there are several.")
@option(
    "--confidence-level",
    type=float,
    metavar="NUMBER",
    help="Confidence level of the intervals. [default: as before, or 0.95]",
)
@option("--remove", is_flag=True, help="Remove the stream's rows from the database instead.")
@option("--key", help="Where the key is: a file, env:NAME or command:... [default: STATE.key]")
@json_option
def publish(
    *,
    state: str,
    to: str | None,
    stream: str | None,
    confidence_level: float | None,
    remove: bool,
    key: str | None,
    as_json: bool,
) -> None:
    """Write releases into plain database tables, for Grafana, Metabase or psql.

    The view counton_releases shows them. Run the command after each release; within the state's own
    database every later run publishes by itself.
    """
    from counton.base.wording import counted
    from counton.cli.print_forms import Console, print_json
    from counton.run.outputs.exports import publish as publish_stream

    publication = publish_stream(
        state, to, stream=stream, confidence_level=confidence_level, remove=remove, key=key
    )
    if as_json:
        print_json(asdict(publication))
        return
    console = Console()
    subject = f"stream {publication.stream!r}"
    if remove:
        console.write_line(f"{subject}: {publication.before:,} steps removed, {publication.place}")
        return
    new = publication.after - publication.before
    console.write_line(
        f"{subject}: {counted(new, 'new step')}, {publication.after:,} in all, "
        f"in the view counton_releases of {publication.place}"
    )
