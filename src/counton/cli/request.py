"""What was asked on the command line: the options of ``count`` and ``sum`` as one value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """Options as given; None where an option was left out.

    A new stream needs the options that define it; a later run may leave them out, and may not
    contradict them.
    """

    what: str  # "count" or "sum"
    events: str
    state: str
    time: str | None = None
    every: str | None = None
    by: str | None = None
    domain: str | None = None
    value: str | None = None
    lower: str | None = None
    upper: str | None = None
    resolution: str | None = None
    steps: int | None = None
    start: str | None = None
    until: str | None = None
    timezone: str | None = None
    epsilon: str | None = None
    delta: str | None = None
    rho: str | None = None
    strategy: str | None = None
    metric: str | None = None
    expire: bool = False
    growth: str | None = None
    delay: int | None = None
    unit: str | None = None
    stream: str = "events"
    key: Path | None = None
    file_format: str | None = None
    time_format: str | None = None
    clock_change: str = "raise"
    unknown: str = "refuse"
    append: bool = False
    out: Path | None = None
    plot: Path | None = None
    level: float = 0.95
    json: bool = False
    bar: bool = False  # a progress bar also where nobody watches a terminal
