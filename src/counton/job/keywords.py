"""The fields of a job as keyword arguments, for editors and type checkers.

`Job` says what each of them means, and ``python -m tools.keywords`` writes this file from it. A
length of time may be a `timedelta` here, a moment a `date` or a `datetime`, and several columns a
list.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from counton.base.exact import Number
    from counton.state.keys import Kept
    from counton.strategies.strategy import StreamStrategy

#: Names of the statistics of counton. A statistic of another package is given as an object.
StatisticName: TypeAlias = Literal[
    "count",
    "sum",
    "average",
    "quantiles",
    "top-k",
    "hierarchy",
    "ranges",
    "contingency",
    "moments",
    "distinct",
    "reach",
    "report",
]


class RowFields(TypedDict, total=False):
    """Keyword arguments that state the format of rows, for every function that reads rows."""

    file_format: str | None
    separator: str | None
    decimal: str | None
    time_format: str | None
    clock_change: Literal["raise", "earliest", "latest"] | None
    bad_rows: str | None
    bad_rows_most: int | None
    missing: Literal["refuse", "skip"] | None


class JobFields(RowFields, total=False):
    """Keyword arguments of `counton.release`, besides the state and the guarantee.

    >>> stream: JobFields = {"time": "at", "every": "1d", "start": "2024-03-01", "steps": 365}
    >>> sorted(stream)
    ['every', 'start', 'steps', 'time']
    """

    name: str
    key: Kept
    witness: str | os.PathLike[str] | None
    time: str | None
    every: str | timedelta | None
    steps: int | None
    around: int | None
    start: str | date | None
    until: str | date | None
    yes: bool
    quiet: int | None
    timezone: str | None
    watermark: str | timedelta | None
    revise: str | timedelta | None
    recounts: int | None
    by: str | Sequence[str] | None
    domain: str | os.PathLike[str] | Sequence[Any] | Mapping[str, Sequence[Any]] | None
    other: str | None
    unknown: Literal["refuse", "drop", "discover"] | None
    epsilon: Number | None
    delta: Number | None
    rho: Number | None
    within: Number | None
    least: Literal["epsilon", "rho"] | None
    size: int | None
    expire: bool
    growth: Number | None
    delay: int | None
    unit: str | None
    release: Literal["totals", "windows", "both", "periods"] | None
    strategy: str | StreamStrategy | None
    metric: Literal["mean", "max"] | None
    simple: bool
    user: str | None
    most: int | None
    per: str | timedelta | None
    most_a_window: int | None
    retain: str | timedelta | None
    row: str | None
    moves: int | None
    distinct: bool
    first: bool
    id: str | None
    query: str | None
    append: bool
    covers: str | timedelta | None
    out: str | os.PathLike[str] | None
    plot: str | os.PathLike[str] | None
    title: str | None
    axis: str | None
    source: str | None
    width: float | None
    over: int | None
    shares: str | Sequence[float] | None
    ask: str | Sequence[str] | None
    level: float | None
    options: Mapping[str, Any]
    counts: str | None
    value: str | None
    lower: Number | None
    upper: Number | None
    resolution: Number | None
    cells: int | None
    edges: str | Sequence[str] | Sequence[float] | None
    line: str | None
    replace: bool
    top: int | None
    room: int | None
    levels: str | Sequence[str] | None
    target: str | Mapping[str, float] | None
    label: str | None
    workload: str | None
    columns: str | Sequence[str] | None
    equal: bool
    bounds: str | Sequence[str] | Sequence[float] | None
    grid: int | None
    at_least: str | Sequence[str] | Sequence[float] | None
    statistics: str | Mapping[str, Mapping[str, Any]] | None
