"""Options of commands that plan, before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from counton.cli.command_options import JSON, JobWords, argument, of_job
from counton.job.job import OptionRecord, option


@dataclass(frozen=True)
class PlanOptions(JobWords):
    """Show how accurate a release would be, before you spend anything: the exact error.

    Strategies are ranked, best first. --within finds the smallest epsilon for an accuracy that you
    want. A job file is planned whole: the error of every number of its jobs, and what they cost.
    plan-expiring plans a stream whose protection fades; a table's own command plans it, with
    --plan. No rows are read.
    """

    asked: str | None = argument(
        "how many windows the stream will have until it ends, as with --steps; or a job file "
        "to plan",
        None,
        often=True,
    )
    steps: int | None = of_job("steps")
    epsilon: str | None = option(
        None, "privacy loss of one event, or with --most of one user", often=True
    )
    delta: str | None = option(
        None, "with --epsilon: the delta of (epsilon, delta) privacy, as in 1e-6", often=True
    )
    rho: str | None = of_job("rho")
    within: str | None = option(
        None,
        "find the smallest epsilon (or rho) so that an interval at the last step reaches at most "
        "this far to either side: 20, 2% of --size, or by name, count=20,mean=0.5",
        often=True,
    )
    level: float | None = option(
        None,
        "with --within or a job file: probability that an interval holds the true number",
        often=True,
    )
    least: str | None = option(
        None, "with --within: which number to find, epsilon (default) or rho"
    )
    size: int | None = option(
        None, "how many rows there will be by the last step; the number must be public"
    )
    metric: str | None = of_job("metric")
    release: str | None = option(
        None, "which numbers must be accurate: totals, windows or both", often=True
    )
    around: int | None = option(
        None, "plan a stream without an end for this many first windows", often=True
    )
    simple: bool = of_job("simple")
    most: int | None = option(
        None,
        "protect users instead of single events; at most this many events of a user count",
        often=True,
    )
    per: str | None = option(
        None,
        "with --most: apply --most to each period of this length, as in 1d; protects what a user "
        "does in one period",
    )
    most_a_window: int | None = option(
        None, "with --most: how many of a user's events count in one window"
    )
    of: str | None = option(
        None,
        "plan this statistic; write it with the options that define it: 'top-k --domain A,B'",
        often=True,
    )
    strategy: str | None = option(
        None,
        "rank only these, A,B: strategies as in count --strategy, or mechanisms exactly as in "
        "their papers, such as smooth-paper; auto: all",
        often=True,
    )
    over: str | None = option(
        None,
        "compare strategies at several numbers of windows: 10,100, or 16:4096, which "
        "doubles from 16 to 4096",
    )
    plot: Path | None = option(
        None,
        "file for a chart of the errors over time, or with --over by number of windows",
        often=True,
    )
    width: float | None = of_job("width")
    full: bool = option(False, "show all strategies, their costs, and lower bounds of the error")
    json: bool = option(False, JSON)


@dataclass(frozen=True)
class ExpiringPlanOptions(OptionRecord):
    """Plan a stream without an end, whose protection fades with age: state the largest losses.

    The plan finds the growth, the delay and the loss of the newest event, with the least error, and
    shows what one event has lost at each age. No rows are read.
    """

    epsilon: str | None = option(
        None,
        "largest privacy loss of an event by its age, as in 1d:1,365d:3: 1 within a day, "
        "3 within a year",
    )
    rho: str | None = option(
        None, "largest loss by age in rho instead (Gaussian noise), as in 1d:.1,365d:.3"
    )
    every: str | None = option(None, "length of a window: 15m, 1h, 1d, 1w, 1mo")
    per_step: float = option(1, "expected events per window; the error of a delay grows with them")
    rmse: float | None = option(None, "root-mean-square error that the plan must reach")
    largest_error: float | None = option(None, "bound that no error exceeds, with probability 2/3")
    steps: int | None = option(
        None, "number of windows whose errors are averaged; default: the largest age"
    )
    largest_growth: str | None = option(None, "largest growth to try, from 0 on; default: 2")
    plot: Path | None = option(None, "file for a chart of the loss by age: .png, .svg or .pdf")
    width: float | None = of_job("width")
    json: bool = option(False, JSON)
