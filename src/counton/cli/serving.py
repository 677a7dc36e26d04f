"""The commands ``serve`` and ``serve-token``."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from counton.cli.options import ServeOptions, TokenOptions
from counton.cli.printing import print_line, print_table
from counton.lazy import require


def perform(options: ServeOptions) -> None:
    """Serve until the process is told to end.

    Raises:
        CountonError: nothing can be served; of single jobs that cannot it is said why.
    """
    for module in ("fastapi", "uvicorn", "zstandard", "swagger_ui_bundle"):
        require(module)
    from counton.serve.server import serve
    from counton.serve.service import Service

    only = [] if options.only is None else [name.strip() for name in options.only.split(",")]
    service = Service(options.file, tuple(only))

    for remark in service.remarks:
        print_line(Console(stderr=True), f"counton: {remark}")

    def began(url: str) -> None:
        print_line(Console(stderr=True), f"serving {', '.join(service.served)} at {url}")

    serve(service, options.listen, began)


def perform_token(options: TokenOptions) -> None:
    """Make, revoke or list tokens.

    Raises:
        InvalidInput: no such scope or token, or a file that cannot be read or written.
    """
    from counton.serve.settings import settings_of
    from counton.serve.tokens import Tokens

    tokens = Tokens(settings_of(options.file).tokens)
    if options.revoke is not None:
        tokens.revoke(options.revoke)
    if options.make is not None:
        scopes = [scope.strip() for scope in options.make.split(",")]
        sys.stdout.write(tokens.make(scopes) + "\n")
        return
    table = Table()
    for column in ("id", "for", "made"):
        table.add_column(column)
    for token in tokens.all():
        table.add_row(token.id, ", ".join(token.scopes), token.made)
    print_table(Console(), table)
