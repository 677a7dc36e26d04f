"""What is asked of a job, as one value. Imports nothing heavy: the command line's help reads it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from counton.exact import Number


@dataclass(frozen=True)
class Request:
    """What ``counton count`` and ``counton sum`` are asked; None where something is left out.

    A new stream needs the fields that define it; a later run may leave them out, and may not
    contradict them.

    >>> Request(what="count", events="visits.csv", state="visits.db").name
    'events'

    Attributes:
        what: number of events, or sum of a column of values.
        events: file of rows; ``-`` for standard input.
        state: path of a SQLite file, or a database URL.
        time, by, value: columns of the events.
        every, start, steps, timezone: windows of time.
        domain: the declared groups, public knowledge: a file, a list ``A,B,C``, or a sequence.
        lower, upper, resolution: of the values of a sum.
        until: windows that ended by then are released; None: by the newest event's time.
        confirmed: release also what looks like a mistake, as many windows after the newest event.
        epsilon, delta, rho: the guarantee.
        strategy, metric: how the noise is arranged, or by which error it is chosen.
        expire, growth, delay: of a stream without an end.
        unit: what one row is called.
        name: within the state.
        key: file of the key; None: ``STATE.key``.
        file_format, time_format, clock_change: how the events are read.
        unknown: whether rows of undeclared groups are refused or dropped.
        append: the file holds new events only.
    """

    what: Literal["count", "sum"]
    events: str | os.PathLike[str]
    state: str | os.PathLike[str]
    time: str | None = None
    every: str | None = None
    by: str | None = None
    domain: str | os.PathLike[str] | Sequence[str] | None = None
    value: str | None = None
    lower: Number | None = None
    upper: Number | None = None
    resolution: Number | None = None
    steps: int | None = None
    start: str | datetime | None = None
    until: str | datetime | None = None
    confirmed: bool = False
    timezone: str | None = None
    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    strategy: str | None = None
    metric: str | None = None
    expire: bool = False
    growth: Number | None = None
    delay: int | None = None
    unit: str | None = None
    name: str = "events"
    key: str | os.PathLike[str] | None = None
    file_format: str | None = None
    time_format: str | None = None
    clock_change: str = "raise"
    unknown: str = "refuse"
    append: bool = False
