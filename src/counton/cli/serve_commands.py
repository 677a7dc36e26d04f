"""The command ``serve``."""

from __future__ import annotations

from counton.base.lazy import require
from counton.cli.print_forms import Console
from counton.cli.serve_options import ServeOptions


def perform(options: ServeOptions) -> None:
    """Run the service until the process is told to end."""
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
