"""Entry point of the command ``counton``."""

from __future__ import annotations

import gc
import io
import sys

from counton.base.errors import MissingExtra
from counton.base.lazy import require

#: So many new objects are made before cycles among them are looked for. Modules are loaded all
#: through a command; with Python's own 700 a fifth of the CPU time of a first count went there.
_OBJECTS = 50_000


def main() -> None:
    """Run the command line on ``sys.argv``."""
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
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

    try:
        app(prog_name="counton")
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            from counton.cli.exits import close_output

            close_output()


if __name__ == "__main__":
    main()
