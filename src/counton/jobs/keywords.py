"""The fields of a job as keyword arguments: what editors offer and type checkers hold.

`Job` says what each of them means; a test holds the names and types here to its own. A length of
time may be a `timedelta` here, a moment a `date` or a `datetime`, and several columns a list.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from counton.exact import Number
    from counton.store.keyfile import Kept
    from counton.strategies.base import StreamStrategy


class JobFields(TypedDict, total=False):
    """What `counton.release` takes by name, besides where the state is and the guarantee.

    >>> stream: JobFields = {"time": "at", "every": "1d", "start": "2024-03-01", "steps": 365}
    >>> sorted(stream)
    ['every', 'start', 'steps', 'time']
    """

    time: str | None
    every: str | timedelta | None
    by: str | Sequence[str] | None
    domain: str | os.PathLike[str] | Sequence[Any] | Mapping[str, Sequence[Any]] | None
    value: str | None
    lower: Number | None
    upper: Number | None
    resolution: Number | None
    statistics: str | Mapping[str, Mapping[str, Any]] | None
    columns: str | Sequence[str] | None
    levels: str | Sequence[str] | None
    label: str | None
    workload: str | None
    equal: bool
    bounds: str | Sequence[str] | None
    grid: int | None
    target: str | Mapping[str, float] | None
    number: int | None
    cells: int | None
    edges: str | Sequence[float] | None
    line: str | None
    replace: bool
    top: int | None
    room: int | None
    window: int | None
    windows: int | None
    changes: int | None
    stay: int | None
    comes: str | None
    alphabet: str | Sequence[str] | None
    longest: int | None
    letter: str | None
    edge: str | Sequence[str] | None
    weight: str | None
    degree: int | None
    leaves: int | None
    nodes: int | None
    largest: Number | None
    beyond: str | None
    steps: int | None
    around: int | None
    start: str | date | None
    until: str | date | None
    watermark: str | timedelta | None
    confirmed: bool
    timezone: str | None
    epsilon: Number | None
    delta: Number | None
    rho: Number | None
    within: Number | None
    least: str | None
    size: int | None
    continues: str | None
    drop_waiting: bool
    other: str | None
    spare: int | None
    also: str | Sequence[Any] | None
    rename: str | None
    release: str | None
    strategy: str | StreamStrategy | None
    metric: str | None
    simple: bool
    expire: bool
    growth: Number | None
    delay: int | None
    user: str | None
    most: int | None
    per: str | timedelta | None
    most_a_window: int | None
    retain: str | timedelta | None
    distinct: bool
    first: bool
    id: str | None
    unit: str | None
    name: str
    key: Kept
    ledger: str | os.PathLike[str] | None
    witness: str | os.PathLike[str] | None
    query: str | None
    file_format: str | None
    separator: str
    decimal: str
    time_format: str | None
    clock_change: str
    unknown: str
    bad_rows: str
    bad_rows_most: int
    missing: str
    late: str
    append: bool
    counted: str
    out: str | os.PathLike[str] | None
    above: float | None
    surely_above: float | None
    plot: str | os.PathLike[str] | None
    sums: str | None
    title: str | None
    axis: str | None
    source: str | None
    width: float | None
    over: int | None
    shares: str | Sequence[float] | None
    ask: str | Sequence[str] | None
    cut: str | None
    integers: bool
    nonnegative: bool
    known: str | os.PathLike[str] | Mapping[Any, int] | Sequence[Any] | None
    level: float
    options: Mapping[str, Any]
