"""What commands can be given: the options of one run as one value."""

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
    confirmed: o.Confirmed = False
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
    name: o.StreamName = "events"
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


@dataclass(frozen=True)
class HierarchyOptions:
    """Options of ``hierarchy``."""

    leaves: o.Leaves
    levels: o.Levels
    value: o.Counts
    domain: o.Nodes
    out: o.TableOut
    target: o.Target = None
    epsilon: o.Epsilon = None
    delta: o.Delta = None
    rho: o.Rho = None
    move: o.Move = False
    unit: o.UnitName = "unit"
    name: o.ReleaseName = "hierarchy"
    key: o.TableKey = None
    plot: o.TablePlot = None
    json: o.Json = False


@dataclass(frozen=True)
class RangesOptions:
    """Options of ``ranges``."""

    series: o.Series
    value: o.Counts
    out: o.TableOut
    label: o.Label = None
    ask: o.Ask = None
    workload: o.Workload = "ranges"
    strategy: o.LineStrategy = "auto"
    epsilon: o.Epsilon = None
    delta: o.Delta = None
    rho: o.Rho = None
    move: o.Move = False
    unit: o.UnitName = "unit"
    name: o.ReleaseName = "ranges"
    key: o.TableKey = None
    plot: o.TablePlot = None
    json: o.Json = False


#: What both commands that release tables can be given.
TableOptions = HierarchyOptions | RangesOptions


@dataclass(frozen=True)
class PlanOptions:
    """Options of ``plan``."""

    steps: o.Steps = None
    epsilon: o.Epsilon = None
    delta: o.Delta = None
    rho: o.Rho = None
    metric: o.Metric = None
    expire: o.Targets = None
    every: o.PlanEvery = None
    per_step: o.PerStep = 1
    rmse: o.Rmse = None
    largest_error: o.LargestError = None
    largest_growth: o.LargestGrowth = None
    concentrated: o.Concentrated = False
    plot: o.PlanPlot = None
    json: o.Json = False
