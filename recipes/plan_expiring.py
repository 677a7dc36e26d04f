"""Plan a stream without an end, whose protection fades with age, from the largest losses.

    python recipes/plan_expiring.py 24:1 8760:3
    python recipes/plan_expiring.py 24:0.1 8760:0.3 --rho --chart loss.png
    python recipes/plan_expiring.py 24:1 8760:2 --delta 1e-6

The example has windows of an hour: an event may lose 1 within a day and 3 within a year. The
program prints what one event has lost at these ages and ten times later, beside the analysis of the
paper; the error; and the options with which ``counton release count`` follows the plan.
"""

from __future__ import annotations

import argparse

from counton import plan_expiring
from counton.planning import FadingPlan


def loss_by_age(plan: FadingPlan, ages: list[int]) -> list[str]:
    """Return a line for each age: losses of the plan, and of the paper's analysis of it."""
    losses = (plan.best.errors.loss(ages), plan.best.errors.loss(ages, "paper"))
    rows = zip(ages, *losses, strict=True)
    return [f"after {age:>10,} windows {own:9.3g} {paper:8.3g}" for age, own, paper in rows]


def options(plan: FadingPlan) -> str:
    """Return the options with which ``counton release count`` follows a plan."""
    strategy = plan.best.strategy
    delay = f" --expiration-delay {strategy.facts.delay}" if strategy.facts.delay else ""
    loss = plan.guarantee.to_dict()[plan.unit]
    return (
        f"--expiring --expiration-growth {strategy.parameters['growth']}{delay} --{plan.unit} "
        f"{loss}"
    )


def targets(given: list[str]) -> dict[int, float]:
    """Return the largest losses by age, from words such as ``24:1``."""
    pairs = [one.split(":") for one in given]
    return {int(age): float(loss) for age, loss in pairs}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("losses", nargs="+", help="age in windows and largest loss: 24:1 8760:3")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--rho", action="store_true", help="losses are in rho (Gaussian noise)")
    kind.add_argument("--delta", help="losses are the epsilon of (epsilon, delta)")
    parser.add_argument("--chart", help="file for a chart of the loss by age")
    given = parser.parse_args()
    largest = targets(given.losses)
    found = plan_expiring(rho=largest) if given.rho else plan_expiring(largest, delta=given.delta)
    ages = [0, *largest, 10 * max(largest)]
    print(found.in_words())
    print(f"loss in {found.unit:<17} this plan    paper")
    print(*loss_by_age(found, ages), sep="\n")
    print(f"typical error {found.best.errors.rmse:.1f}")
    print(f"options for counton release count: {options(found)}")
    if given.chart:
        from counton.charts import plot_loss

        later = {f"{age:,} windows": age for age in ages[-1:]}
        plot_loss(found, later, "What one event has lost, by its age").savefig(given.chart)
