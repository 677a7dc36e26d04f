"""The command ``counton plan``: strategies with their errors, as `counton.plan` finds them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from rich.box import SIMPLE_HEAD
from rich.table import Table

from counton.base.errors import InvalidInput, field
from counton.base.exact import figures
from counton.base.lengths import PERIODS
from counton.cli.plan_options import PlanOptions
from counton.cli.print_forms import Console, check_chart, print_json, warn_of_weak
from counton.job.job import check_most, check_most_a_window, require_guarantee
from counton.job.stated_options import KINDS, refuse_stated
from counton.privacy import Contribution
from counton.privacy.guarantees import guarantee_from

if TYPE_CHECKING:
    from counton.planning import StreamPlan
    from counton.strategies.strategy import Metric, ReleaseForm

#: Words for the numbers whose variances are ranked, by ``--release``.
_OF = {"totals": "", "windows": "of each step's own count ", "both": "of totals and counts "}


def perform(options: PlanOptions) -> None:
    """Print the plan of a job file, or of a stream."""
    if options.asked is not None and options.asked.endswith(".toml"):
        from counton.cli.job_plan_command import print_job_plan

        print_job_plan(options)
        return
    if options.asked is not None:
        steps = options.asked.replace(",", "").replace("_", "")
        if not steps.isdecimal():
            raise InvalidInput(
                f"{options.asked!r} is neither a number of windows nor a job file; give one of "
                "them, such as 8760 or nightly.toml"
            )
        if options.steps is not None:
            raise InvalidInput(
                f"{field('steps', options.steps)} and {options.asked} both give the number of "
                "windows: leave one of them out"
            )
        options = replace(options, asked=None, steps=int(steps))
    _print_plan(options)


def _print_plan(options: PlanOptions) -> None:
    """Print strategies and their errors, best first."""
    from counton.statistics.plan_verb import plan

    unit, whom = _protected_unit(options)
    metric = cast("Metric", options.metric or "mean")
    release = cast("ReleaseForm", options.release or "totals")
    check_chart(options.plot, options.width)
    if options.most is None:
        for name in (name for name in ("per", "most_a_window") if options.states(name)):
            raise InvalidInput(
                f"{field(name, options.option(name))} needs {field('most')}; give it, or leave "
                f"{field(name)} out"
            )
    if options.steps is None and options.around is None:
        raise InvalidInput(
            "--steps is missing: how many windows will the stream ever have? If it has no end, "
            "give --around, the number of first windows to plan for; if the protection of old "
            "events may fade, counton.plan_expiring plans it in Python"
        )
    if options.steps is not None and options.around is not None:
        raise InvalidInput(
            f"--around {options.around} plans a stream without an end, and --steps {options.steps} "
            "gives it an end: leave one of them out"
        )
    ranked = plan(
        options.steps,
        strategies=_strategies_named(options.strategy),
        around=options.around,
        metric=metric,
        release=release,
        simple=options.simple,
        contribution=unit,
        **_target(options),
    )
    guarantee = ranked.guarantee
    warn_of_weak(Console(stderr=True), guarantee, unit.unit)
    if options.plot is not None:
        from counton.charts import plot_plan
        from counton.run.written_files import write_figure

        figure = plot_plan(ranked, "Errors of counts, by step", width=options.width)
        write_figure(figure, options.plot)
    if options.json:
        print_json(
            {
                "steps": options.steps,
                "guarantee": guarantee.to_dict(),
                "around": options.around,
                "within": None if ranked.reached is None else ranked.reached._asdict(),
                "metric": ranked.metric,
                "release": release,
                "most": options.most,
                "per": options.per,
                "most_a_window": options.most_a_window,
                "contribution": unit.to_dict(),
                "choices": ranked.rows(),
                "lower_bounds": ranked.least_std(),
                "factors": [{**one.to_dict(), "factor": one.factor} for one in ranked.factors],
                "notes": list(ranked.notes),
            }
        )
        return
    console = Console()
    error = "mean" if ranked.metric == "mean" else "largest"
    length = f"{ranked.steps:,} step{'s' * (ranked.steps > 1)}"
    if options.around is not None:
        length = f"no last step, errors of the first {length}"
    console.write_line(ranked.in_words(), bold=True)
    if options.full:
        least = f"least {error} variance {_OF[release]}first"
        console.write_line(f"{length}, {guarantee}, one {whom} more or less; {least}")
    else:
        console.write_line(f"{length}; {guarantee.meaning_for(whom, unit.relation)}")
    if ranked.reached is not None:
        console.write_line(str(ranked.reached))
    if options.full:
        _write_strategies(console, ranked)
    else:
        errors = ranked.best.errors
        mean, largest = figures(errors.mean_std), figures(errors.max_std)
        console.write_line(
            f"standard deviation {mean} on average, {largest} at most; how it is reached, other "
            "ways, and how much less is possible: --full"
        )
    if options.release == "windows" and (options.most or 1) > 1 and options.most_a_window is None:
        console.write_line(
            f"note: early windows may use up a user's {options.most:,} events, and later windows "
            f"are counted too low; plan --most-a-window 1 too, which leaves them some"
        )
    if options.full:
        _write_limits(console, ranked)
    if options.plot is not None:
        console.write_line(f"chart written to {options.plot}")


def _strategies_named(text: str | None) -> tuple[str, ...] | None:
    """Return the strategies that ``--strategy`` names, without repetitions; None if none."""
    return None if text is None else tuple(dict.fromkeys(one.strip() for one in text.split(",")))


def _write_strategies(console: Console, ranked: StreamPlan) -> None:
    """Print all strategies with their errors, best first."""
    families = {choice.family for choice in ranked}
    table = Table(box=SIMPLE_HEAD)  # a kind's name and all numbers fit 80 columns
    table.add_column("strategy", overflow="fold")
    for name in ("mean std", "max std", "above", "keeps"):
        table.add_column(name, justify="right")
    least = ranked.best.errors.by(ranked.metric)
    for choice in ranked:
        above = choice.errors.by(ranked.metric) / least - 1 if least else 0.0
        table.add_row(
            choice.kind if len(families) == 1 else f"{choice.kind}, {choice.family}",
            figures(choice.errors.mean_std),
            figures(choice.errors.max_std),
            f"{above:.0%}" if choice is not ranked.best else "",
            f"{choice.row()['held']:,}",
        )
    console.write_table(table)


def _write_limits(console: Console, ranked: StreamPlan) -> None:
    """Print how the best strategy compares with the papers' strategies and with lower bounds."""
    from counton.base.literature import origin_of
    from counton.numbers.strategy_words import named_constants

    console.write_line(
        f"best: {ranked.best.kind} with {ranked.best.family} noise, {ranked.why(ranked.best)}; "
        f"{origin_of(ranked.best.strategy.sources)}; its parts, for experts: --json"
    )
    constants = [(choice.kind, ", ".join(named_constants(choice.strategy))) for choice in ranked]
    if parameters := dict.fromkeys(f"{kind} ({stated})" for kind, stated in constants if stated):
        console.write_line(f"parameters: {'; '.join(parameters)}")
    console.write_line(ranked.published_in_words)
    for factor in ranked.factors:
        console.write_line(f"how far from possible: {factor.distance}")
    console.write_line(
        "above: by how much the error exceeds that of the best; keeps: numbers of 8 bytes that a "
        "run holds for each group, besides its total"
    )
    for note in ranked.notes:
        console.write_line(f"note: {note}")


def _protected_unit(options: PlanOptions) -> tuple[Contribution, str]:
    """Return the contribution of one protected unit, and the unit in words."""
    if options.most is None:
        return Contribution.add_remove(unit="count"), "count"
    check_most(options.most)
    check_most_a_window(options.most_a_window, options.most)
    protected = "user"
    if options.per is not None:
        from counton.run.new_stream import check_period

        check_period(options.per)
        protected = f"user's {PERIODS.get(options.per, options.per)}"
    unit = Contribution.events(options.most, most_a_step=options.most_a_window, unit=protected)
    few = f", {options.most_a_window:,} in each window," if options.most_a_window else ""
    return unit, f"{protected} with up to {options.most:,} event{'s' * (options.most > 1)}{few}"


def _target(options: PlanOptions) -> dict[str, Any]:
    """Return the arguments of `counton.plan` that state the privacy guarantee.

    They may state the half-width of an interval instead, from which the guarantee is found.
    """
    stated = {name: options.option(name) for name in ("level", "least", "size")}
    stated = {name: value for name, value in stated.items() if value is not None}
    if options.within is None:
        numbers = (options.epsilon, options.delta, options.rho)
        return {"guarantee": require_guarantee(guarantee_from(*numbers)), **stated}
    refuse_stated(options, ("epsilon", "rho"), field("within", options.within), KINDS["wanted"].why)
    return {"within": options.within, "delta": options.delta, **stated}
