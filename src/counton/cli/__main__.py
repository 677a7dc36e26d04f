"""Entry point of the command ``counton``."""

from __future__ import annotations

from counton.cli.app import app


def main() -> None:
    """Run the command line on ``sys.argv``."""
    app(prog_name="counton")


if __name__ == "__main__":
    main()
