"""The options of jobs as keyword arguments, for editors and type checkers.

`counton.job` says what each of them means, and ``python -m tools.keywords`` writes this file
from its models. A length of time may be a `timedelta` here, a moment a `date` or a `datetime`, and
several columns a list.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict

if TYPE_CHECKING:
    import polars as pl

    from counton.base.exact import Number
    from counton.noise import Key
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


class ArrowTable(Protocol):
    """A data frame of any library that exports its rows by the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as an Arrow stream in a PyCapsule, as Arrow's C stream interface
        prescribes.
        """


#: Sources of events.
EventSource: TypeAlias = (
    "str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | pl.LazyFrame | ArrowTable"
)


class RowOptions(TypedDict, total=False):
    """Keyword arguments that state the format of rows, for every function that reads rows."""

    file_format: Literal["csv", "parquet", "jsonl"] | None
    separator: str | None
    decimal: Literal[".", ","] | None
    time_format: str | None
    ambiguous: Literal["raise", "earliest", "latest"] | None
    bad_rows: str | None
    max_bad_rows: int | None
    missing_values: Literal["fail", "drop"] | None
    row_id: str | None
    lookback: str | timedelta | None


class JobOptions(RowOptions, total=False):
    """Keyword arguments of `counton.release`, besides the state and the guarantee.

    >>> stream: JobOptions = {"time": "at", "every": "1d", "start": "2024-03-01", "windows": 365}
    >>> sorted(stream)
    ['every', 'start', 'time', 'windows']
    """

    time: str | None
    every: str | timedelta | None
    windows: int | None
    expected_windows: int | None
    start: str | date | None
    until: str | date | None
    allow_empty_windows: bool
    max_empty_windows: int | None
    timezone: str | None
    release_delay: str | timedelta | None
    allowed_lateness: str | timedelta | None
    max_corrections: int | None
    epsilon: Number | None
    delta: Number | None
    rho: Number | None
    margin_of_error: Number | Mapping[str, Any] | None
    solve_for: Literal["epsilon", "rho"] | None
    expected_rows: int | None
    expiring: bool
    expiration_growth: Number | None
    expiration_delay: int | None
    privacy_unit: str | None
    strategy: str | StreamStrategy | None
    metric: Literal["mean", "max"] | None
    simple: bool
    query: str | None
    append: bool
    output: str | os.PathLike[str] | None
    chart: str | os.PathLike[str] | None
    title: str | None
    axis: str | None
    source: str | None
    width: float | None
    confidence_level: float | None
    stream: str | None
    key: Key | str | os.PathLike[str] | None
    rollback_guard: str | os.PathLike[str] | None
    user: str | None
    max_contributions: int | None
    contribution_period: str | timedelta | None
    retain: str | timedelta | None
    max_contributions_per_window: int | None
    event_name: str | None
    once_per_window: bool
    distinct_users: bool
    groups: str | os.PathLike[str] | Sequence[Any] | Mapping[str, Sequence[Any]] | None
    group_by: str | Sequence[str] | None
    other_group: str | None
    unlisted_groups: Literal["error", "drop", "discover"] | None
    series: (
        Literal["cumulative", "per-window", "both", "rolling", "decayed", "period-to-date"] | None
    )
    last: str | timedelta | Sequence[str] | None
    half_life: str | timedelta | None
    upstream_max_contributions: int | None
    count_column: str | None
    value: str | None
    lower: Number | None
    upper: Number | None
    resolution: Number | None
    over: int | None
    replace: bool
    shares: str | Sequence[float] | None
    cells: int | None
    edges: str | Sequence[float] | None
    line: str | None
    top: int | None
    room: int | None
    levels: str | Sequence[str] | None
    target: str | Mapping[str, float] | None
    ask: str | Sequence[str] | None
    label: str | None
    workload: str | None
    columns: str | Sequence[str] | None
    equal: bool
    bounds: str | Sequence[str] | None
    grid: int | None
    at_least: str | Sequence[int] | None
    statistics: str | Mapping[str, Mapping[str, Any]] | None
