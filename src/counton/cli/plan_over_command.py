"""The option ``counton plan --over``: errors of strategies at several numbers of windows."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from counton.base.errors import InvalidInput, field
from counton.base.exact import figures
from counton.base.strategy_names import PAPERS
from counton.cli.plan_options import PlanOptions
from counton.cli.print_forms import Console, print_json
from counton.statistics.plan_verb import plan

#: Default strategies to compare: the best of all, and those of papers.
_USUAL = ("auto", *PAPERS)
#: Largest number of lengths to compare, and the largest length.
_MOST, _LARGEST = 100, 2**26


def print_over(options: PlanOptions, arguments: dict[str, Any]) -> None:
    """Print a table of errors: a row for each number of windows, a column for each strategy.

    Args:
        arguments: arguments of `counton.plan`.
    """
    assert options.over is not None, "without --over there is one number of windows"
    for name in ("steps", "around", "within"):
        if options.option(name) is not None:
            raise InvalidInput(
                f"{field(name, options.option(name))} does not go with "
                f"{field('over', options.over)}, which compares numbers of windows for one "
                "guarantee: leave one of them out"
            )
    named = strategies_named(options.strategy) or _USUAL
    horizons = parse_over(options.over)
    plans = {
        name: {steps: _plan_of(steps, name, arguments) for steps in horizons} for name in named
    }
    metric = "mean" if options.metric is None else options.metric
    if options.plot is not None:
        from counton.charts import plot_over
        from counton.run.written_files import write_figure

        title = "Errors of counts, by the number of windows"
        write_figure(plot_over(plans, title, width=options.width), options.plot)
    errors = {
        name: {
            steps: None if one is None else one.best.errors.by(one.metric)
            for steps, one in by.items()
        }
        for name, by in plans.items()
    }
    if options.json:
        print_json({"metric": metric, "errors": errors})
        return
    some = next(one for by in plans.values() for one in by.values() if one is not None)
    console = Console()
    console.write_line(
        f"{'mean' if metric == 'mean' else 'largest'} standard deviation, by the number of "
        f"windows; {some.guarantee}, {some.contribution}"
    )
    table = Table(box=SIMPLE_HEAD)
    for name in ("windows", *named):
        table.add_column(name, justify="right")
    for steps in horizons:
        row = [errors[name][steps] for name in named]
        table.add_row(f"{steps:,}", *("-" if one is None else figures(one) for one in row))
    console.write_table(table)
    if "auto" in named:
        console.write_line("auto: the best of all ranked strategies")
    console.write_files(None, options.plot)


def _plan_of(steps: int, name: str, arguments: dict[str, Any]) -> Any:
    """Plan the strategy ``name`` ("auto": the best one) for this many windows (``steps``); None if
    it cannot serve them. ``arguments`` are further arguments of `counton.plan`.
    """
    try:
        return plan(steps, strategies=None if name == "auto" else [name], **arguments)
    except InvalidInput as error:
        if "strategy" in error.fields:
            raise
        return None


def strategies_named(text: str | None) -> tuple[str, ...] | None:
    """Split the value of ``--strategy`` at commas into names of strategies; None stays None.

    >>> strategies_named("kary, smooth-paper")
    ('kary', 'smooth-paper')
    """
    return None if text is None else tuple(dict.fromkeys(one.strip() for one in text.split(",")))


def parse_over(text: str) -> list[int]:
    """Parse numbers of windows: a range such as "16:100", which doubles each time, or a list.

    >>> parse_over("16:100"), parse_over("365,1000")
    ([16, 32, 64, 100], [365, 1000])
    """
    first, colon, last = text.partition(":")
    words = [first, last] if colon else text.split(",")
    plain = [word.strip().replace("_", "") for word in words]
    numbers = [int(word) for word in plain if word.isdecimal()]
    if len(numbers) < len(words) or not all(1 <= one <= _LARGEST for one in numbers):
        raise InvalidInput(
            f"{field('over', text)} is not a range of numbers of windows up to {_LARGEST:,}; give "
            "a range, as in 16:4096, or a list, as in 100,1000"
        )
    if colon:
        low, high = numbers
        if low > high:
            raise InvalidInput(
                f"{field('over', text)} ends before it begins: write the smaller number first, "
                f"{high}:{low}"
            )
        numbers = [low << place for place in range((high // low).bit_length())]
        numbers += [high] * (numbers[-1] < high)
    if len(numbers) > _MOST:
        raise InvalidInput(
            f"{field('over', text)} lists {len(numbers)} numbers of windows; give at most {_MOST}"
        )
    return sorted(dict.fromkeys(numbers))
