"""What each releasing command can be given: the options of one run as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from counton.cli import options as o


@dataclass(frozen=True)
class _Places:
    events: o.Events
    state: o.State


@dataclass(frozen=True)
class _Values:
    value: o.Value = None
    lower: o.Lower = None
    upper: o.Upper = None
    resolution: o.Resolution = None


@dataclass(frozen=True)
class _Stream:
    time: o.Time = None
    every: o.Every = None
    by: o.By = None
    domain: o.Domain = None
    steps: o.Steps = None
    start: o.Start = None
    until: o.Until = None
    timezone: o.Timezone = None
    epsilon: o.Epsilon = None
    delta: o.Delta = None
    rho: o.Rho = None
    strategy: o.StrategyName = None
    metric: o.Metric = None
    expire: o.Expire = False
    growth: o.Growth = None
    delay: o.Delay = None
    unit: o.Unit = None
    stream: o.StreamName = "events"
    key: o.KeyFile = None
    file_format: o.FileFormat = None
    time_format: o.TimeFormat = None
    clock_change: o.ClockChange = "raise"
    unknown: o.Unknown = "refuse"
    append: o.Append = False
    out: o.Out = None
    plot: o.Plot = None
    level: o.Level = 0.95
    json: o.Json = False


# The help shows options in the order of the fields: those of the last base first.
@dataclass(frozen=True)
class CountOptions(_Stream, _Places):
    """Options of ``count``."""

    what: ClassVar[Literal["count", "sum"]] = "count"


@dataclass(frozen=True)
class SumOptions(_Stream, _Values, _Places):
    """Options of ``sum``."""

    what: ClassVar[Literal["count", "sum"]] = "sum"


#: What both commands can be given.
EventOptions = CountOptions | SumOptions
