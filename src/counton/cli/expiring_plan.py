"""``counton plan --expire``: the loss by age of a plan, of the paper's claim, and of the habit."""

from __future__ import annotations

import math
from typing import Any

from rich.table import Table

from counton.base.errors import InvalidInput, field
from counton.base.exact import figures
from counton.cli.command_options import PlanOptions
from counton.cli.print_forms import Console, check_chart, print_json
from counton.cli.privacy_by_age import named_ages, targets_from
from counton.job.job import options_of
from counton.job.refusals import refuse_others
from counton.planning import FadingPlan
from counton.statistics.plan_verb import plan


def print_expiring_plan(options: PlanOptions) -> None:
    """Find the plan, print it, draw it."""
    expire, every = options.expire, options.every
    assert expire is not None, "without --expire there is another plan"
    if every is None:
        raise InvalidInput(f"--expire {expire} speaks of time; give the length of a step, --every")
    own = [name for name, said in options_of(PlanOptions).items() if said.needs == "expire"]
    why = ", which finds the guarantee from the losses by age"
    refuse_others(options, (*own, "expire", "steps", "plot", "width", "json"), field("expire"), why)
    check_chart(options.plot, options.width)
    targets = targets_from(expire, every)
    ages = _shown_ages(expire, targets, every)
    found = plan(
        expire=targets,
        rmse=options.rmse,
        largest_error=options.largest_error,
        steps=options.steps,
        per_step=options.per_step,
        concentrated=options.concentrated,
        largest_growth=2 if options.largest_growth is None else options.largest_growth,
    )
    if options.plot is not None:
        from counton.charts import plot_loss
        from counton.run.written_files import write_figure

        named = named_ages(every)  # targets have marks of their own
        furthest = max(named.values(), default=0)
        drawn = named | {name: age for name, age in ages.items() if age > 4 * furthest}
        title = "What one event has lost, by its age"
        write_figure(plot_loss(found, drawn, title, width=options.width), options.plot)
    if options.json:
        print_json(_as_json(found, ages, every))
        return
    console = Console()
    _show(console, found, ages, every, expire)
    console.write_files(None, options.plot)


def _shown_ages(expire: str, targets: dict[int, float], every: str) -> dict[str, int]:
    """At once, the ages that everybody can picture, and those that were asked for; in order.

    >>> _shown_ages("1d:1,20y:3", {1: 1.0, 7305: 3.0}, "1d")
    {'at once': 0, 'a day': 1, 'a week': 7, 'a year': 366, 'ten years': 3653, '20y': 7305}
    """
    texts = [part.partition(":")[0].strip() for part in expire.split(",")]
    asked = dict(zip(texts, targets, strict=True))
    named = {"at once": 0, **named_ages(every)}
    for name, age in asked.items():
        if age not in named.values():
            # A year and 365 days are one age to a reader: the one that was asked for is shown.
            named = {other: near for other, near in named.items() if abs(near - age) > age / 50}
            named[name] = age
    return dict(sorted(named.items(), key=lambda item: item[1]))


def _options(plan: FadingPlan) -> str:
    """Options of ``counton count`` that follow the plan."""
    parameter = plan.guarantee.to_dict()[plan.unit]
    delay = f" --delay {plan.best.strategy.facts.delay}" if plan.best.strategy.facts.delay else ""
    growth = plan.best.strategy.parameters["growth"]
    return f"--expire --growth {growth}{delay} --{plan.unit} {parameter}"


def _show(
    console: Console, plan: FadingPlan, ages: dict[str, int], every: str, expire: str
) -> None:
    console.write_line(f"Counting forever, steps of {every}, losses asked for: {expire}", bold=True)
    growth, parameter = float(plan.best.strategy.growth), float(getattr(plan.guarantee, plan.unit))
    console.write_line(
        f"growth {growth:g}, delay {plan.best.strategy.facts.delay:,}, {plan.unit} {parameter:g}"
    )
    table = Table()
    loss = "privacy loss" if plan.unit == "epsilon" else "loss in rho"
    table.add_column(f"{loss} of one event")
    habit = f"restarted every {plan.baseline.window:,} steps"
    for name in ("this plan", "the paper's analysis of it", habit):
        table.add_column(name, justify="right")
    columns = (
        plan.best.loss(ages.values()),
        plan.best.loss(ages.values(), "paper"),
        plan.baseline.loss(ages.values()),
    )
    for name, *losses in zip(ages, *columns, strict=True):
        table.add_row(name if name == "at once" else f"after {name}", *map(figures, losses))
    table.add_section()
    error, habit_error = figures(plan.best.rmse), figures(plan.baseline_rmse)
    table.add_row(f"typical error, {plan.steps:,} steps", error, error, habit_error)
    console.write_table(table)
    last = max(plan.targets)
    if max(ages.values()) > last:
        age = next(name for name, steps in ages.items() if steps == last)
        console.write_line(
            f"nothing is asked beyond {age}, where the loss grows on like log(age)^{growth:g}"
        )
    tenths = 10 if plan.best.largest_error() < 1000 else 1  # rounded up, since it is a bound
    largest = figures(math.ceil(tenths * plan.best.largest_error()) / tenths)
    errors = f"all {plan.steps:,} errors stay below {largest} with probability 2/3"
    if plan.least_largest_error:
        least = figures(plan.least_largest_error)
        errors += f"; no mechanism at all with these losses can stay below {least}"
    console.write_line(errors)
    console.write_line(f"options for counton count: {_options(plan)}")


def _as_json(plan: FadingPlan, ages: dict[str, int], every: str) -> dict[str, Any]:
    losses = {
        "exact": plan.best.loss(ages.values()),
        "paper": plan.best.loss(ages.values(), "paper"),
        "baseline": plan.baseline.loss(ages.values()),
    }
    return {
        "every": every,
        "targets": {str(age): loss for age, loss in plan.targets.items()},
        "steps": plan.steps,
        "strategy": plan.best.strategy.parameters,
        "guarantee": plan.guarantee.to_dict(),
        "options": _options(plan),
        "rmse": plan.best.rmse,
        "largest_error": plan.best.largest_error(),
        "least_largest_error": plan.least_largest_error,
        "baseline": {
            "window": plan.baseline.window,
            "current": plan.baseline.current,
            "past": plan.baseline.past,
            "rmse": plan.baseline_rmse,
        },
        "loss_by_age": [
            {"age": name, "steps": ages[name], **{k: float(v[i]) for k, v in losses.items()}}
            for i, name in enumerate(ages)
        ],
    }
