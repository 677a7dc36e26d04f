"""The command ``counton send``: it sends rows of a file, or of a pipe, to a service."""

from __future__ import annotations

from counton.base.errors import InvalidInput, field
from counton.cli.print_forms import Console, print_json
from counton.cli.serve_options import SendOptions

#: Name of standard input.
_STDIN = "-"


def perform(options: SendOptions) -> None:
    """Send rows to a service, and print how many were sent."""
    from counton.serve.client import Client, send_file, send_stream

    for name, least in (("batch_rows", 1), ("wait", 0), ("patience", 0)):
        if (given := getattr(options, name)) < least:
            raise InvalidInput(f"{field(name, given)} is too small; give at least {least}")
    client = Client(options.to, options.token, options.patience)
    if options.rows == _STDIN:
        if options.notes is None:
            raise InvalidInput(
                "rows from a pipe cannot be read again after an interruption, so a file must note "
                f"how many were sent; give {field('notes', 'visits.sent')} for example"
            )
        sent = send_stream(client, options.notes, rows=options.batch_rows, seconds=options.wait)
    else:
        sent = send_file(client, options.rows, options.notes, rows=options.batch_rows)
    if options.json:
        print_json(sent._asdict())
        return
    batches = f"{sent.batches:,} batch{'es' * (sent.batches != 1)}"
    nowhere = "".join(f"; {why}: {many:,}" for why, many in sent.counted_nowhere.items() if many)
    Console().write_line(
        f"sent {batches}: {sent.rows:,} rows, of which {sent.counted:,} count{nowhere}"
        if sent.batches
        else "nothing new to send"
    )
