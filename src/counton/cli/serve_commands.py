"""The command ``serve``."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from counton.base.lazy import require
from counton.cli.print_forms import Console
from counton.cli.serve_options import ServeOptions


def end_on_signal() -> None:
    """End at SIGTERM while the service begins, also as the first process of a container.

    For such a process the default action of a signal does not apply, so it would be ignored.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _raise_exit)


def _raise_exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def perform(options: ServeOptions) -> None:
    """Run the service until the process is told to end.

    Args:
        options: the job file, the address, and the jobs to serve.
    """
    end_on_signal()
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        require(module)
    from counton.serve.server import serve
    from counton.serve.service import Service

    service = Service(options.file, options.only)

    for remark in service.remarks:
        Console(stderr=True).write_line(f"counton: {remark}")

    def began(url: str) -> None:
        Console(stderr=True).write_line(f"serving {', '.join(service.served)} at {url}")

    serve(service, options.listen, began)
