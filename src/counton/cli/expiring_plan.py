"""``counton plan --expire``: the loss by age of a plan, of the paper's claim, and of the habit."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from counton.analysis import ExpirationPlan, plan_expiration
from counton.cli.ages import named_ages, targets_from
from counton.errors import InvalidInput


def print_expiring_plan(
    expire: str,
    every: str | None,
    steps: int | None,
    per_step: float,
    rmse: float | None,
    largest_error: float | None,
    concentrated: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Find the plan, print it, draw it.

    Raises:
        InvalidInput: unreadable targets, or targets that no choice keeps.
    """
    if every is None:
        raise InvalidInput(f"--expire {expire} speaks of time; give the length of a step, --every")
    if plot is not None:
        from counton.cli.outputs import PICTURES, check_output

        check_output(plot, PICTURES)
    targets, ages = targets_from(expire, every), named_ages(every)
    plan = plan_expiration(
        targets,
        rmse=rmse,
        largest_error=largest_error,
        steps=steps,
        per_step=per_step,
        concentrated=concentrated,
    )
    if plot is not None:
        from counton.analysis import plot_loss
        from counton.analysis.plots import save_figure
        from counton.store.whole_file import replace_file

        figure = plot_loss(plan, ages, "What one event has lost, by its age")
        replace_file(plot, lambda name: save_figure(figure, name))
    if as_json:
        sys.stdout.write(json.dumps(_as_json(plan, ages, every), indent=2) + "\n")
        return
    _show(Console(), plan, ages, every, expire)
    if plot is not None:
        sys.stdout.write(f"chart written to {plot}\n")


def _options(plan: ExpirationPlan) -> str:
    """Options of ``counton count`` that follow the plan."""
    parameter = plan.guarantee.to_dict()[plan.unit]
    delay = f" --delay {plan.strategy.delay}" if plan.strategy.delay else ""
    return (
        f"--expire --growth {plan.strategy.parameters['growth']}{delay} --{plan.unit} {parameter}"
    )


def _show(
    console: Console, plan: ExpirationPlan, ages: dict[str, int], every: str, expire: str
) -> None:
    def say(text: str, **style: Any) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True, **style)

    say(f"Counting forever, steps of {every}, losses asked for: {expire}", style="bold")
    growth, parameter = float(plan.strategy.growth), float(getattr(plan.guarantee, plan.unit))
    say(f"growth {growth:g}, delay {plan.strategy.delay:,}, {plan.unit} {parameter:g}")
    table = Table()
    loss = "privacy loss" if plan.unit == "epsilon" else "loss in rho"
    table.add_column(f"{loss} of one event")
    habit = f"budget refilled every {plan.baseline.window:,} steps"
    for name in ("this plan", "the paper's analysis of it", habit):
        table.add_column(name, justify="right")
    shown = {"at once": 0, **ages}
    columns = (
        plan.loss(shown.values()),
        plan.loss(shown.values(), "paper"),
        plan.baseline.loss(shown.values()),
    )
    for name, *losses in zip(shown, *columns, strict=True):
        table.add_row(
            name if name == "at once" else f"after {name}", *(f"{x:,.3f}" for x in losses)
        )
    table.add_section()
    error, habit_error = f"{plan.rmse:,.1f}", f"{plan.baseline_rmse:,.1f}"
    table.add_row(f"typical error, {plan.steps:,} steps", error, error, habit_error)
    console.print(table, highlight=False, markup=False)
    errors = f"all {plan.steps:,} errors stay below {plan.largest_error:,.0f} with probability 2/3"
    if plan.least_largest_error is not None:
        least = f"{plan.least_largest_error:,}"
        errors += f"; no mechanism at all with these losses can stay below {least}"
    say(errors)
    say(f"options for counton count: {_options(plan)}")


def _as_json(plan: ExpirationPlan, ages: dict[str, int], every: str) -> dict[str, Any]:
    losses = {
        "exact": plan.loss(ages.values()),
        "paper": plan.loss(ages.values(), "paper"),
        "baseline": plan.baseline.loss(ages.values()),
    }
    return {
        "every": every,
        "targets": {str(age): loss for age, loss in plan.targets.items()},
        "steps": plan.steps,
        "strategy": plan.strategy.parameters,
        "guarantee": plan.guarantee.to_dict(),
        "options": _options(plan),
        "rmse": plan.rmse,
        "largest_error": plan.largest_error,
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
