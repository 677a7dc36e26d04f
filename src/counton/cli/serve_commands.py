"""The commands ``serve``, ``serve-token`` and ``serve-left-out``."""

from __future__ import annotations

import sys

from rich.table import Table

from counton.base.errors import InvalidInput, field
from counton.base.lazy import require
from counton.base.options import split_names
from counton.cli.print_forms import Console, print_json
from counton.cli.serve_options import LeftOutOptions, ServeOptions, TokenOptions


def perform(options: ServeOptions) -> None:
    """Run the service until the process is told to end."""
    for module in ("fastapi", "uvicorn", "zstandard", "swagger_ui_bundle", "prometheus_client"):
        require(module)
    from counton.serve.server import serve
    from counton.serve.service import Service

    service = Service(options.file, options.only)

    for remark in service.remarks:
        Console(stderr=True).write_line(f"counton: {remark}")

    def began(url: str) -> None:
        Console(stderr=True).write_line(f"serving {', '.join(service.served)} at {url}")

    serve(service, options.listen, began)


def perform_left_out(options: LeftOutOptions) -> None:
    """List batches that could not be counted, or print one's rows, put it back, or drop it."""
    from counton.serve.uncounted_batches import LeftOutBatches, facts_of

    wanted = {
        name: id
        for name in ("rows", "put_back", "drop")
        if (id := getattr(options, name)) is not None
    }
    if len(wanted) > 1:
        raise InvalidInput(f"{' and '.join(map(field, wanted))} are given; give only one of them")
    kept = LeftOutBatches(options.file, options.only)
    for name, id in wanted.items():
        if name == "rows":
            sys.stdout.write(kept.rows(id))
            return
        many = kept.put_back(id) if name == "put_back" else kept.drop(id)
        became = "wait to be counted" if name == "put_back" else "count nowhere"
        Console().write_line(f"rows of batch {id}, which {became} now: {many:,}")
    if wanted:
        return
    if options.json:
        print_json({"left_out": [facts_of(one) for one in kept.all()]})
        return
    table = Table()
    for column in ("id", "stream", "batch", "came", "rows", "why"):
        table.add_column(column, overflow="fold")
    for one in kept.all():
        table.add_row(*("" if value is None else f"{value}" for value in facts_of(one).values()))
    Console().write_table(table)


def perform_token(options: TokenOptions) -> None:
    """Make, revoke or list the tokens of a service, secret texts that permit its use."""
    from counton.serve.settings import settings_of
    from counton.serve.tokens import Tokens

    tokens = Tokens(settings_of(options.file).tokens)
    if options.revoke is not None:
        tokens.revoke(options.revoke)
    if options.make is not None:
        sys.stdout.write(tokens.make(split_names(options.make)) + "\n")
        return
    table = Table()
    for column in ("id", "for", "made"):
        table.add_column(column)
    for token in tokens.all():
        table.add_row(token.id, ", ".join(token.scopes), token.made)
    Console().write_table(table)
