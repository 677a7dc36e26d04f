"""Entry point of the command ``counton``."""

from __future__ import annotations

import io
import sys

from counton.base.errors import MissingExtra
from counton.base.lazy import require


def main() -> None:
    """Run the command line on ``sys.argv``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names and frames that the terminal cannot show must not end a run half-way.
            stream.reconfigure(errors="replace")
    try:
        require("typer")
        require("rich")
    except MissingExtra as error:
        sys.stderr.write(f"counton: {error}\n")
        raise SystemExit(1) from None
    from counton.cli.app import app

    app(prog_name="counton")


if __name__ == "__main__":
    main()
