"""Options of commands that plan, before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from counton.cli.command_options import JSON, JobWords, argument, of_job
from counton.job.job import option


@dataclass(frozen=True)
class PlanOptions(JobWords):
    """Show how accurate a release would be, before you spend anything: the exact error.

    Strategies are ranked, best first. --within finds the smallest epsilon for an accuracy that you
    want. A job file is planned whole: the error of every number of its jobs, and what they cost.
    A statistic is planned by its own command, with --plan. No rows are read.
    """

    asked: str | None = argument(
        "how many windows the stream will have until it ends, as with --steps; or a job file "
        "to plan",
        None,
        often=True,
    )
    steps: int | None = of_job("steps")
    epsilon: str | None = option(
        "privacy loss of one event, or with --most of one user", often=True
    )
    delta: str | None = option(
        "with --epsilon: the delta of (epsilon, delta) privacy, as in 1e-6", often=True
    )
    rho: str | None = of_job("rho")
    within: str | None = option(
        "find the smallest epsilon (or rho) so that an interval at the last step reaches at most "
        "this far to either side: 20, or 2% of --size",
        often=True,
    )
    level: float | None = option(
        "with --within or a job file: probability that an interval holds the number without noise",
        often=True,
    )
    least: str | None = option("with --within: which number to find, epsilon (default) or rho")
    size: int | None = option(
        "how many rows there will be by the last step; the number must be public"
    )
    metric: str | None = of_job("metric")
    release: str | None = option(
        "which numbers must be accurate: totals, windows or both", often=True
    )
    around: int | None = option(
        "plan a stream without an end for this many first windows", often=True
    )
    simple: bool = of_job("simple")
    most: int | None = option(
        "protect users instead of single events; at most this many events of a user count",
        often=True,
    )
    per: str | None = option(
        "with --most: apply --most to each period of this length, as in 1d; protects what a user "
        "does in one period"
    )
    most_a_window: int | None = option(
        "with --most: how many of a user's events count in one window"
    )
    strategy: str | None = option(
        "rank only these, A,B: strategies as in count --strategy, or mechanisms exactly as in "
        "their papers, such as smooth-paper; auto: all",
        often=True,
    )
    plot: Path | None = option("file for a chart of the errors over time", often=True)
    width: float | None = of_job("width")
    full: bool = option(
        "show all strategies, their costs, and lower bounds of the error", default=False
    )
    json: bool = option(JSON, default=False)
