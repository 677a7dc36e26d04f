"""Log lines of a service, as JSON. They contain no data.

No row, value, token or name of a client's batch is written; only events, with their stream, number
and duration.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_LOGGER = logging.getLogger("counton.serve")


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line of JSON."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__  # its message may hold data
        return json.dumps(line, ensure_ascii=True, default=str)


def begin() -> None:
    """Start the log: lines, also of uvicorn, go to stderr as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    for name in ("counton.serve", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.INFO if name == "counton.serve" else logging.WARNING)


def note(event: str, **facts: object) -> None:
    """Log an event with facts, which must not contain data."""
    _LOGGER.info(event, extra={"facts": facts})


def warn(event: str, **facts: object) -> None:
    """Log an event that needs the operator's attention, as `note` does."""
    _LOGGER.warning(event, extra={"facts": facts})
