"""The command ``plan-expiring``: privacy loss by age of the data, for a plan and two alternatives.

The alternatives are the bound proved in the paper, and the common practice of restarting a counter.
"""

from __future__ import annotations

import math
from typing import Any

from rich.table import Table

from counton.base.errors import InvalidInput, field
from counton.base.exact import figures
from counton.cli.plan_options import ExpiringPlanOptions
from counton.cli.print_forms import Console, check_chart, print_json
from counton.cli.privacy_by_age import named_ages, targets_from
from counton.planning.expiration_plans import FadingPlan, plan_expiring


def perform(options: ExpiringPlanOptions) -> None:
    """Make the plan, print it, and draw it if a chart is requested."""
    losses_by_unit = {name: options.option(name) for name in ("epsilon", "rho")}
    stated = {name: losses for name, losses in losses_by_unit.items() if losses is not None}
    if len(stated) != 1:
        raise InvalidInput(
            "the privacy loss must be stated exactly once: give either "
            f"{field('epsilon', '1d:1,365d:3')} or {field('rho', '1d:0.1,365d:0.3')} (the loss "
            "allowed at each age of an event)"
        )
    ((unit, losses),), every = stated.items(), options.every
    if every is None:
        raise InvalidInput(
            f"{field(unit, losses)} states ages as times, and the plan needs the length of a "
            f"window: give {field('every', '1h')} for example"
        )
    check_chart(options.plot, options.width)
    targets = targets_from(losses, every)
    ages = _shown_ages(losses, targets, every)
    found = plan_expiring(
        **{unit: targets},  # type: ignore[arg-type]
        rmse=options.rmse,
        largest_error=options.largest_error,
        steps=options.steps,
        per_step=options.per_step,
        largest_growth=2 if options.largest_growth is None else options.largest_growth,
    )
    if options.plot is not None:
        from counton.charts import plot_loss
        from counton.run.written_files import write_figure

        named = named_ages(every)  # the targets have marks of their own
        furthest = max(named.values(), default=0)
        drawn = named | {name: age for name, age in ages.items() if age > 4 * furthest}
        title = "What one event has lost, by its age"
        write_figure(plot_loss(found, drawn, title, width=options.width), options.plot)
    if options.json:
        print_json(_as_json(found, ages, every))
        return
    console = Console()
    _show(console, found, ages, every)
    console.write_files(None, options.plot)


def _shown_ages(expire: str, targets: dict[int, float], every: str) -> dict[str, int]:
    """Return the ages to print, by name, as numbers of steps.

    They are age 0, the ages that the user stated in ``expire``, and familiar ages such as a day,
    except those within 2% of a stated age. The numbers of steps of the stated ages are the keys of
    ``targets``.

    >>> _shown_ages("1d:1,20y:3", {1: 1.0, 7305: 3.0}, "1d")
    {'at once': 0, 'a day': 1, 'a week': 7, 'a year': 366, 'ten years': 3653, '20y': 7305}
    """
    texts = [part.partition(":")[0].strip() for part in expire.split(",")]
    stated = dict(zip(texts, targets, strict=True))
    named = {"at once": 0, **named_ages(every)}
    for name, age in stated.items():
        if age not in named.values():
            # A reader takes a year and 365 days for one age: show the stated one.
            named = {other: near for other, near in named.items() if abs(near - age) > age / 50}
            named[name] = age
    return dict(sorted(named.items(), key=lambda item: item[1]))


def _options(plan: FadingPlan) -> str:
    """Return the options with which ``counton count`` follows the plan."""
    parameter = plan.guarantee.to_dict()[plan.unit]
    delay = f" --delay {plan.best.strategy.facts.delay}" if plan.best.strategy.facts.delay else ""
    growth = plan.best.strategy.parameters["growth"]
    return f"--expire --growth {growth}{delay} --{plan.unit} {parameter}"


def _show(console: Console, plan: FadingPlan, ages: dict[str, int], every: str) -> None:
    console.write_line(plan.in_words(), bold=True)
    growth, parameter = float(plan.best.strategy.growth), float(getattr(plan.guarantee, plan.unit))
    delay = plan.best.strategy.facts.delay
    console.write_line(
        f"steps of {every}, growth {growth:g}, delay {delay:,}, {plan.unit} {parameter:g}"
    )
    table = Table()
    loss = "privacy loss" if plan.unit == "epsilon" else "loss in rho"
    table.add_column(f"{loss} of one event")
    habit = f"restarted every {plan.baseline.window:,} steps"
    for name in ("this plan", "the paper's analysis of it", habit):
        table.add_column(name, justify="right")
    errors = plan.best.errors
    columns = (
        errors.loss(ages.values()),
        errors.loss(ages.values(), "paper"),
        plan.baseline.loss(ages.values()),
    )
    for name, *losses in zip(ages, *columns, strict=True):
        table.add_row(name if name == "at once" else f"after {name}", *map(figures, losses))
    table.add_section()
    error, habit_error = figures(errors.rmse), figures(plan.baseline_rmse)
    table.add_row(f"typical error, {plan.steps:,} steps", error, error, habit_error)
    console.write_table(table)
    last = max(plan.targets)
    if max(ages.values()) > last:
        age = next(name for name, steps in ages.items() if steps == last)
        console.write_line(
            f"beyond the age of {age} the loss has no bound: it goes on growing like "
            f"log(age)^{growth:g}"
        )
    bound = errors.largest_error()
    tenths = 10 if bound < 1000 else 1  # it is a bound, so it is rounded up
    largest = figures(math.ceil(tenths * bound) / tenths)
    stay = f"all {plan.steps:,} errors stay below {largest} with probability 2/3"
    if plan.least_largest_error:
        least = figures(plan.least_largest_error)
        stay += f"; no mechanism at all with these losses can stay below {least}"
    console.write_line(stay)
    console.write_line(f"options for counton count: {_options(plan)}")


def _as_json(plan: FadingPlan, ages: dict[str, int], every: str) -> dict[str, Any]:
    errors = plan.best.errors
    losses = {
        "exact": errors.loss(ages.values()),
        "paper": errors.loss(ages.values(), "paper"),
        "baseline": plan.baseline.loss(ages.values()),
    }
    return {
        "every": every,
        "targets": {str(age): loss for age, loss in plan.targets.items()},
        "steps": plan.steps,
        "strategy": plan.best.strategy.parameters,
        "guarantee": plan.guarantee.to_dict(),
        "options": _options(plan),
        "rmse": errors.rmse,
        "largest_error": errors.largest_error(),
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
