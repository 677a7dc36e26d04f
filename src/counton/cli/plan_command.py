"""The command ``counton plan``: strategies with their errors, or the jobs of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from counton.base.errors import InvalidInputError, param
from counton.cli.command_class import TwoPageCommand, option

if TYPE_CHECKING:
    from counton.cli.print_forms import Console
    from counton.job.statistics.count import CountJob
    from counton.planning import StreamPlan
    from counton.privacy import ContributionBound

#: Words for the numbers whose variances are ranked, by ``--series``.
_RANKED_NUMBERS = {
    "cumulative": "",
    "per-window": "of each window's own count ",
    "both": "of totals and counts ",
    "rolling": "of sums of the last windows ",
    "decayed": "of decayed sums ",
}
#: Options that may be given with a job file, which states all others.
_WITH_JOB_FILE = ("expected_rows", "as_json")
#: Options whose values are checked as those of a job.
_OF_JOBS = (
    "epsilon",
    "delta",
    "rho",
    "margin_of_error",
    "confidence_level",
    "solve_for",
    "expected_rows",
    "metric",
    "series",
    "max_contributions",
    "contribution_period",
    "max_contributions_per_window",
)


class PlanCommand(TwoPageCommand):
    """The command ``plan``; messages name options of all jobs, too."""

    def words(self) -> Mapping[str, str]:
        """Return what messages call the options of jobs and of this command."""
        from counton.cli.command_text import command_words

        own_words = {"job_file": "job file", "asked": "WINDOWS"}
        return {**command_words(), **super().words(), **own_words}


@click.command(
    "plan",
    cls=PlanCommand,
    example=["counton plan --windows 365 --margin-of-error 20"],
)
@click.argument(
    "asked",
    required=False,
    metavar="[WINDOWS|JOBFILE]",
    help="Number of windows of the stream, as with --windows, or a job file to plan.",
)
@option(
    "--windows",
    type=int,
    metavar="N",
    is_in_short_help=True,
    help="Number of windows of the stream.",
)
@option(
    "--epsilon",
    is_in_short_help=True,
    help="Privacy loss of one event, or with --max-contributions of one user.",
)
@option(
    "--delta",
    is_in_short_help=True,
    help="With --epsilon: the delta of (epsilon, delta) privacy, as in 1e-6.",
)
@option("--rho", help="Zero-concentrated privacy loss, in place of epsilon.")
@option(
    "--margin-of-error",
    is_in_short_help=True,
    help="Find the smallest epsilon (or rho) with this margin of error at the last window: 20, or "
    "2% of --expected-rows.",
)
@option(
    "--confidence-level",
    type=float,
    metavar="NUMBER",
    is_in_short_help=True,
    help="With --margin-of-error: confidence level of the interval. [default: 0.95]",
)
@option("--solve-for", help="With --margin-of-error: which number to find. [default: epsilon]")
@option(
    "--expected-rows",
    type=int,
    metavar="N",
    help="Public guess of the number of rows up to the last window.",
)
@option(
    "--metric",
    metavar="mean|max",
    help="Error that the strategy minimises, over all windows. [default: mean]",
)
@option(
    "--series",
    is_in_short_help=True,
    metavar="cumulative|per-window|both|rolling|decayed",
    help="Which numbers must be accurate. [default: cumulative]",
)
@option(
    "--last",
    metavar="N[,N]",
    help="Number of last windows that are added up: 7, or several: 1,7,28. With --series rolling "
    "alone, with cumulative beside totals.",
)
@option(
    "--half-life",
    metavar="N",
    help="With --series decayed: number of windows after which a window counts half.",
)
@option(
    "--expected-windows",
    type=int,
    metavar="N",
    is_in_short_help=True,
    help="Plan a stream without an end, with the least error over this many first windows.",
)
@option(
    "--simple",
    is_flag=True,
    help="Rank strategies that publish whole numbers, without a search.",
)
@option(
    "--max-contributions",
    type=int,
    metavar="N",
    is_in_short_help=True,
    help="Protect users instead of single events; at most this many events of a user count.",
)
@option(
    "--contribution-period",
    help="With --max-contributions: apply the limit to each period of this length, such as 1d. One "
    "period of one user is protected.",
)
@option(
    "--max-contributions-per-window",
    type=int,
    metavar="N",
    help="With --max-contributions: how many of a user's events count in one window.",
)
@option(
    "--strategy",
    is_in_short_help=True,
    help="Rank only these, A,B: strategies as in count --strategy, or mechanisms exactly as in "
    "their papers, such as smooth-paper. [default: auto, all]",
)
@option(
    "--chart",
    type=click.Path(path_type=Path),
    is_in_short_help=True,
    help="File for a chart of the errors over time.",
)
@option("--width", type=float, metavar="NUMBER", help="Width of the chart in inches.")
@option(
    "--full",
    is_flag=True,
    help="Show all strategies, their costs, and lower bounds of the error.",
)
@option("--json", "as_json", is_flag=True, help="Print one JSON object in place of text.")
def plan(asked: str | None, **values: Any) -> None:
    """Show how accurate a release would be, before you spend anything: the exact error.

    Strategies are ranked, best first. --margin-of-error finds the smallest epsilon for an accuracy
    that you want. A job file is planned whole: the error of every number of its jobs, and what they
    cost. A statistic is planned by its own command, with --plan. No rows are read.
    """
    from counton.job.incompatible import refuse_beside_job_file, refuse_of_plan

    if asked is not None and asked.endswith(".toml"):
        from counton.cli.job_plan import print_job_plans

        refuse_beside_job_file({**values, "job_file": asked}, allowed=_WITH_JOB_FILE)
        print_job_plans(asked, size=values["expected_rows"], as_json=values["as_json"])
        return
    number = None if asked is None else _number_of_windows(asked)
    refuse_of_plan({**values, "asked": number})
    if number is not None:
        values["windows"] = number
    request = _parse_request(values)
    ranked = request.plan()
    _warn_of_weak_guarantee(ranked, request.contribution.unit)
    if request.chart is not None:
        _draw(ranked, request.chart, request.width)
    if request.as_json:
        _print_json(ranked, request)
        return
    _print_plan(ranked, request)
    if request.chart is not None:
        from counton.cli.print_forms import Console

        Console().write_line(f"chart written to {request.chart}")


@dataclass(frozen=True)
class _PlanRequest:
    """A stream to plan, and how to show its plan.

    Attributes:
        windows: number of windows; None: there is no last one.
        expected_windows: without a last window, number of windows for which the errors are.
        is_simple: whether only strategies that publish whole numbers are ranked.
        strategies: names of the strategies to rank; None: all.
        job: the options that a job has too.
        contribution: the bound on what one protected unit contributes.
        numbers: arguments of `counton.plan` for the numbers that must be accurate.
        chart: file for a chart; None: no chart.
        width: width of the chart in inches; None: the usual one.
        is_full: whether all strategies are shown.
        as_json: whether one JSON object is printed.
    """

    windows: int | None
    expected_windows: int | None
    is_simple: bool
    strategies: tuple[str, ...] | None
    job: CountJob
    contribution: ContributionBound
    numbers: dict[str, Any]
    chart: Path | None
    width: float | None
    is_full: bool
    as_json: bool

    def plan(self) -> StreamPlan:
        """Return the plan."""
        from counton.statistics.plan_api import plan as plan_stream

        return plan_stream(
            self.windows,
            strategies=self.strategies,
            expected_windows=self.expected_windows,
            metric=self.job.metric or "mean",
            simple=self.is_simple,
            contribution=self.contribution,
            **self.numbers,
            **_target_of(self.job),
        )


# ---------------------------------------------------------------------------- what was asked
def _parse_request(values: dict[str, Any]) -> _PlanRequest:
    """Return what the options of the command ask for; refuse options that contradict each other."""
    windows: int | None = values["windows"]
    job = _checked_options(values)
    _check_windows(windows, values["expected_windows"])
    _check_chart(values["chart"], values["width"])
    return _PlanRequest(
        windows=windows,
        expected_windows=values["expected_windows"],
        is_simple=values["simple"],
        strategies=_names_in(values["strategy"]),
        job=job,
        contribution=_contribution_of(job),
        numbers=_numbers_of(job, values["last"], values["half_life"], windows),
        chart=values["chart"],
        width=values["width"],
        is_full=values["full"],
        as_json=values["as_json"],
    )


def _number_of_windows(asked: str) -> int:
    """Return the number of windows that stands in place of an option."""
    digits = asked.replace(",", "").replace("_", "")
    if not digits.isdecimal():
        raise InvalidInputError(
            f"{asked!r} is neither a number of windows nor a job file; give one of them, such as "
            "8760 or nightly.toml"
        )
    return int(digits)


def _checked_options(values: dict[str, object]) -> CountJob:
    """Return the options that a job has too, checked as those of a job."""
    from counton.job.incompatible import refuse_excluded
    from counton.job.messages import parse_options
    from counton.job.statistics.count import CountJob

    job_options = {name: values[name] for name in _OF_JOBS if values[name] is not None}
    job: CountJob = parse_options(CountJob, job_options)
    refuse_excluded(job)
    return job


def _check_windows(windows: int | None, expected_windows: int | None) -> None:
    if windows is None and expected_windows is None:
        raise InvalidInputError(
            "--windows is missing. Give the number of windows that the stream will have. For a "
            "stream without an end, give --expected-windows, the number of windows to plan for"
        )


def _check_chart(chart: Path | None, width: float | None) -> None:
    """Refuse a file whose ending is that of no chart, and a width that no chart can have."""
    if chart is not None:
        from counton.charts.style import check_width
        from counton.run.outputs.output_files import PICTURES, check_output

        check_output(chart, PICTURES)
        check_width(width)


def _names_in(text: str | None) -> tuple[str, ...] | None:
    """Return the strategies that ``--strategy`` names, without repetitions; None if none."""
    if text is None:
        return None
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


def _contribution_of(job: CountJob) -> ContributionBound:
    """Return the bound on what one protected unit contributes."""
    from counton.base.lengths import PERIODS
    from counton.privacy import ContributionBound
    from counton.run.spec.parsing import check_period

    if job.max_contributions is None:
        return ContributionBound.add_remove(unit="count")
    unit = "user"
    if job.contribution_period is not None:
        period = str(job.contribution_period)
        check_period(period, "UTC")
        unit = f"user's {PERIODS.get(period, period)}"
    return ContributionBound.events(
        job.max_contributions, most_a_step=job.max_contributions_per_window, unit=unit
    )


def _numbers_of(
    job: CountJob, last: str | None, half_life: str | None, windows: int | None
) -> dict[str, object]:
    """Return the arguments of `counton.plan` for the numbers that must be accurate."""
    from counton.base.exact import exact
    from counton.strategies.workloads import Decayed, sums_of_last_steps

    if half_life is not None:
        return {"workload": Decayed(exact(half_life, param("half_life")))}
    if last is None:
        return {"series": job.series or "cumulative"}
    return {"workload": sums_of_last_steps(job.series or "cumulative", _widths_in(last, windows))}


def _widths_in(last: str, windows: int | None) -> list[int]:
    """Return the numbers of windows that a text names, of at most ``windows``."""
    texts = [text.strip() for text in last.split(",")]
    if not all(text.isdecimal() for text in texts):
        raise InvalidInputError(
            f"{param('last', last)} is not a number of windows; give 7, or several as in 1,7,28"
        )
    widths = [int(text) for text in texts]
    if len({*widths}) < len(widths):
        raise InvalidInputError(
            f"{param('last', last)} names a number twice; write each once, as in 7,28"
        )
    if windows is not None and max(widths) > windows:
        raise InvalidInputError(
            f"{param('last', last)}: {max(widths):,} windows are more than the {windows:,} of the "
            "stream. Give a smaller number"
        )
    return widths


def _unit_in_words(job: CountJob, contribution: ContributionBound) -> str:
    if job.max_contributions is None:
        return "count"
    in_window = ""
    if job.max_contributions_per_window:
        in_window = f", {job.max_contributions_per_window:,} in each window,"
    events = "event" if job.max_contributions == 1 else "events"
    return f"{contribution.unit} with up to {job.max_contributions:,} {events}{in_window}"


def _target_of(job: CountJob) -> dict[str, Any]:
    """Return the arguments of `counton.plan` for the privacy guarantee.

    They may state the half-width of an interval instead, from which the guarantee is found.
    """
    from counton.base.errors import MissingOptionError
    from counton.privacy.guarantees import guarantee_from

    options = {
        "confidence_level": job.confidence_level,
        "solve_for": job.solve_for,
        "expected_rows": job.expected_rows,
    }
    options = {name: value for name, value in options.items() if value is not None}
    if job.margin_of_error is not None:
        return {"margin_of_error": job.margin_of_error, "delta": job.delta, **options}
    guarantee = guarantee_from(job.epsilon, job.delta, job.rho)
    if guarantee is None:
        raise MissingOptionError(
            f"the privacy loss is missing; give {param('epsilon')}, {param('epsilon')} and "
            f"{param('delta')}, or {param('rho')}: {param('epsilon', 1)} is a common choice",
            ["epsilon"],
        )
    return {"guarantee": guarantee, **options}


# ----------------------------------------------------------------------------------- the plan
def _warn_of_weak_guarantee(ranked: StreamPlan, unit: str) -> None:
    from counton.cli.print_forms import Console, warn_of_weak

    warn_of_weak(Console(stderr=True), ranked.guarantee, unit)


def _draw(ranked: StreamPlan, path: Path, width: float | None) -> None:
    from counton.charts import plot_plan
    from counton.run.outputs.output_files import write_figure

    write_figure(plot_plan(ranked, "Errors of counts, by step", width=width), path)


def _print_json(ranked: StreamPlan, request: _PlanRequest) -> None:
    from counton.cli.print_forms import print_json

    job = request.job
    print_json(
        {
            "windows": request.windows,
            "guarantee": ranked.guarantee.to_dict(),
            "expected_windows": request.expected_windows,
            "margin_of_error": None if ranked.reached is None else ranked.reached._asdict(),
            "metric": ranked.metric,
            "series": job.series or "cumulative",
            "max_contributions": job.max_contributions,
            "contribution_period": job.contribution_period,
            "max_contributions_per_window": job.max_contributions_per_window,
            "contribution": request.contribution.to_dict(),
            "choices": ranked.rows(),
            "lower_bounds": ranked.least_std(),
            "factors": [{**bound.to_dict(), "factor": bound.factor} for bound in ranked.factors],
            "notes": list(ranked.notes),
        }
    )


def _print_plan(ranked: StreamPlan, request: _PlanRequest) -> None:
    from counton.base.exact import figures, with_capital
    from counton.base.wording import counted
    from counton.cli.print_forms import Console

    console = Console()
    job = request.job
    length = counted(ranked.steps, "window")
    if request.expected_windows is not None:
        length = f"no last window, errors of the first {length}"
    unit = _unit_in_words(job, request.contribution)
    guarantee = ranked.guarantee
    console.write_line(_of_windows(ranked.in_words()), bold=True)
    if request.is_full:
        error = "mean" if ranked.metric == "mean" else "largest"
        numbers = _RANKED_NUMBERS[job.series or "cumulative"]
        order = f"least {error} variance {numbers}first"
        console.write_line(f"{length}, {guarantee}, one {unit} more or less; {order}")
    else:
        console.write_line(f"Length: {length}")
        console.write_line(
            f"Privacy: {guarantee.loss_in_words} for one {unit}, for all windows together"
        )
    if ranked.reached is not None:
        console.write_line(_of_windows(with_capital(str(ranked.reached))))
    if request.is_full:
        _print_strategies(console, ranked)
    else:
        mean = figures(ranked.best.errors.mean_std)
        largest = figures(ranked.best.errors.max_std)
        console.write_line(
            f"Noise standard deviation: {mean} (root mean square over all windows), {largest} "
            "(largest)"
        )
        console.write_line("Next: --full shows the mechanism, alternatives and lower bounds")
    _print_note_on_early_windows(console, job)
    if request.is_full:
        _print_limits(console, ranked)


def _print_note_on_early_windows(console: Console, job: CountJob) -> None:
    """Print that early windows may use up a user's events, if the options allow it."""
    if job.series != "per-window" or job.max_contributions_per_window is not None:
        return
    if (job.max_contributions or 1) > 1:
        console.write_line(
            f"Note: a user's {job.max_contributions:,} events may be used up by early windows, so "
            "that later windows are too low. --max-contributions-per-window limits each window."
        )


def _of_windows(text: str) -> str:
    """Return a text of the planner with the command's word for a step."""
    return re.sub(r"\bstep(s?)\b", r"window\1", text)


def _print_strategies(console: Console, ranked: StreamPlan) -> None:
    """Print all strategies with their errors, best first."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from counton.base.exact import figures

    families = {choice.noise_kind for choice in ranked}
    table = Table(box=SIMPLE_HEAD)  # a strategy's name and all numbers fit 80 columns
    table.add_column("strategy", overflow="fold")
    for name in ("mean std", "max std", "above", "keeps"):
        table.add_column(name, justify="right")
    least = ranked.best.errors.by(ranked.metric)
    for choice in ranked:
        name = choice.strategy_family
        if len(families) > 1:
            name = f"{name}, {choice.noise_kind}"
        above = ""
        if choice is not ranked.best:
            excess = choice.errors.by(ranked.metric) / least - 1 if least else 0.0
            above = f"{excess:.0%}"
        table.add_row(
            name,
            figures(choice.errors.mean_std),
            figures(choice.errors.max_std),
            above,
            f"{choice.row()['held']:,}",
        )
    console.write_table(table)


def _print_limits(console: Console, ranked: StreamPlan) -> None:
    """Print how the best strategy compares with the papers' strategies and with lower bounds."""
    from counton.base.literature import origin_of
    from counton.continual.strategy_text import named_constants

    best = ranked.best
    console.write_line(
        f"best: {best.strategy_family} with {best.noise_kind} noise, {ranked.why(best)}; "
        f"{origin_of(best.strategy.sources)}; its parts, for experts: --json"
    )
    parameters: dict[str, None] = {}  # in their order, each once
    for choice in ranked:
        constants = ", ".join(named_constants(choice.strategy))
        if constants:
            parameters[f"{choice.strategy_family} ({constants})"] = None
    if parameters:
        console.write_line(f"parameters: {'; '.join(parameters)}")
    console.write_line(ranked.published_in_words)
    for bound in ranked.factors:
        console.write_line(f"distance from the lower bound: {bound.distance}")
    console.write_line(
        "above: excess of the error over the smallest error; keeps: numbers of 8 bytes that a "
        "run stores for each group"
    )
    for note in ranked.notes:
        console.write_line(f"note: {note}")
