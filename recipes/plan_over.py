"""Compare the errors of strategies at several numbers of windows, in a table and a chart.

    python recipes/plan_over.py 16 64 256 --rho 0.5 --strategies smooth,smooth-paper --chart
    over.png

The column ``auto`` is the best strategy of all; ``-``: the strategy cannot serve so many windows.
"""

from __future__ import annotations

import argparse

from counton import ZCDP, PureDP, plan
from counton.base.errors import InvalidInputError

Errors = dict[str, list[float | None]]


def errors_over(windows: list[int], strategies: list[str], guarantee: PureDP | ZCDP) -> Errors:
    """Return the mean standard deviation of totals by strategy, for each number of windows."""
    found: Errors = {}
    for name in ("auto", *strategies):
        named = None if name == "auto" else [name]
        found[name] = []
        for many in windows:
            try:
                best = plan(many, guarantee, strategies=named).best
                found[name].append(best.errors.mean_std)
            except InvalidInputError as error:
                if "strategy" in error.fields:  # its name is not known
                    raise
                found[name].append(None)
    return found


def draw(windows: list[int], errors: Errors, file: str) -> None:
    """Draw the errors by number of windows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4), layout="constrained")
    axes = figure.subplots()
    for name, of in errors.items():
        axes.plot(windows, [float("nan") if one is None else one for one in of], "o-", label=name)
    axes.set(xscale="log", xlabel="windows", ylabel="standard deviation", ylim=(0, None))
    axes.legend()
    figure.savefig(file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("windows", nargs="+", type=int)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--rho", help="instead of epsilon")
    parser.add_argument("--strategies", default="", help="names with commas between")
    parser.add_argument("--chart", help="file for a chart")
    given = parser.parse_args()
    guarantee = PureDP(given.epsilon) if given.rho is None else ZCDP(given.rho)
    found = errors_over(given.windows, [*filter(None, given.strategies.split(","))], guarantee)
    print("windows", *(f"{name:>13}" for name in found))
    for place, many in enumerate(given.windows):
        numbers = (of[place] for of in found.values())
        print(f"{many:>7}", *(f"{'-' if one is None else f'{one:.4g}':>13}" for one in numbers))
    if given.chart:
        draw(given.windows, found, given.chart)
