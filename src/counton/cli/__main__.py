"""Entry point of the command ``counton``."""

from __future__ import annotations

import gc
import io
import os
import sys

from counton.base.errors import MissingDependencyError
from counton.base.lazy import require, require_installed

#: Number of new objects before Python looks for cycles among them. Modules are loaded throughout a
#: command; with Python's own threshold of 700 this took a fifth of the CPU time of a first count.
_OBJECTS_BETWEEN_COLLECTIONS = 200_000


def main() -> None:
    """Run the command line on ``sys.argv``."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])
    # As numpy is imported, each thread of its linear algebra waits busily for work for 30 ms.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    # counton uses no plugins of pydantic. To look for them, it reads what every package installs.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name or a frame that the terminal cannot show must not end a run half-way.
            stream.reconfigure(errors="replace")
    try:
        require("click")
        for module in ("pydantic", "rich"):
            require_installed(module)
    except MissingDependencyError as error:
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
        gc.freeze()  # looking for cycles among modules at exit takes a fifth of a short run


if __name__ == "__main__":
    main()
