"""The command ``counton serve``."""

from __future__ import annotations

import signal
import threading
from types import FrameType

import click

from counton.base.lazy import require
from counton.cli.command_class import CountonCommand, option


@click.command("serve", cls=CountonCommand)
@click.argument("file", help="A job file: TOML with [defaults], [jobs.NAME] and [serve].")
@option(
    "--listen",
    default="127.0.0.1:8080",
    show_default=True,
    metavar="HOST:PORT",
    help="Where the service listens; port 0 takes any free port.",
)
@option("--only", help="Serve only these jobs, A,B. [default: all]")
def serve(file: str, listen: str, only: str | None) -> None:
    """Run the jobs of a file as a service: it takes rows by HTTP and publishes on time.

    Readers get the released series as JSON or CSV. The first start makes a token to write and a
    token to read, in JOBFILE.tokens. Several servers may share one PostgreSQL database: one of them
    releases.
    """
    end_on_signal()
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        require(module)
    from counton.cli.print_forms import Console
    from counton.serve import server
    from counton.serve.service import Service

    service = Service(file, only)
    errors = Console(stderr=True)
    for remark in service.remarks:
        errors.write_line(f"counton: {remark}")

    def began(url: str) -> None:
        errors.write_line(f"serving {', '.join(service.served)} at {url}")

    server.serve(service, listen, began)


def end_on_signal() -> None:
    """End at SIGTERM while the service begins, also as the first process of a container.

    For such a process the default action of a signal does not apply, so it would be ignored.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _raise_exit)


def _raise_exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
