"""The command ``inspect``: how many events of a user to count. For the operator's eyes only."""

from __future__ import annotations

from typing import cast

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from counton.cli.options import InspectOptions
from counton.cli.printing import check_chart, print_json, print_line, print_table
from counton.events.windows import ClockChange
from counton.exact import figures
from counton.jobs.choosing import Bound, activity, weigh
from counton.jobs.job import guarantee_from
from counton.results.description import People
from counton.store.whole_file import replace_file

_WARNING = (
    "not private: exact facts of these events, for the operator's eyes only; what they choose is "
    "not protected either: look at an older log or a public one, and keep the choice"
)


def print_inspection(options: InspectOptions) -> None:
    """What each bound on the events of a user drops, and the error of its noise."""
    check_chart(options.plot, options.width)
    guarantee = guarantee_from(options.epsilon, options.delta, options.rho)
    found = activity(
        options.events,
        options.user,
        per=options.per,
        time=options.time,
        timezone=options.timezone,
        file_format=options.file_format,
        time_format=options.time_format,
        clock_change=cast(ClockChange, options.clock_change),
    )
    bounds = weigh(found, options.steps, guarantee)
    best = min(bounds, key=lambda bound: bound.error or 0) if guarantee is not None else None
    whose = People(1, options.per).of(options.user)
    if options.plot is not None:
        _draw(options, bounds, found.events)
    if options.json:
        print_json(
            {
                "not_private": _WARNING,
                "unit": whose,
                "events": found.events,
                "units": int(found.units.sum()),
                "largest": found.largest,
                "rows_without_user": found.without,
                "bounds": [bound._asdict() for bound in bounds],
                "least_error": None if best is None else best.most,
            }
        )
        return
    console = Console()
    print_line(console, _WARNING, bold=True)
    print_line(
        console,
        f"{found.events:,} events of {int(found.units.sum()):,} units ({whose}); the largest has "
        f"{found.largest:,}",
    )
    if found.without:
        print_line(
            console,
            f"{found.without:,} rows have no user, or no time that can be read: count refuses them",
        )
    table = Table(box=SIMPLE_HEAD)
    for name in ("most", "dropped", "units above", "noise (std)", "both"):
        table.add_column(name, justify="right")
    for bound in bounds:
        table.add_row(
            f"{bound.most:,}",
            f"{bound.dropped:.2%}",
            f"{bound.above:,}",
            "" if bound.std is None else figures(bound.std),
            "" if bound.error is None else figures(bound.error),
        )
    print_table(console, table)
    if best is None:
        print_line(console, "with --steps and --epsilon also the error of the noise")
        return
    print_line(
        console,
        f"noise and loss together are least at --most {best.most}: both is the root of the noise's "
        f"variance and the square of the events dropped, in the last total of all",
    )


def _draw(options: InspectOptions, bounds: list[Bound], events: int) -> None:
    from counton.plots.bounds import plot_bounds
    from counton.plots.style import check_width, save_figure

    assert options.plot is not None
    period = "" if options.per is None else f" in each {options.per}"
    figure = plot_bounds(
        [bound.most for bound in bounds],
        [(bound.std or 0) / events for bound in bounds],
        [bound.dropped for bound in bounds],
        f"At most N events of a {options.user}{period}",
        "not private: drawn from the exact events; noise: typical standard deviation of a total",
        width=check_width(options.width),
    )
    replace_file(options.plot, lambda name: save_figure(figure, name))
