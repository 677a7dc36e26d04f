"""The command ``inspect``: private answers that help to choose a bound on each user's events, or on
values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from counton.base.errors import InvalidInput, field
from counton.base.exact import figures, percent
from counton.base.options import numbers_of
from counton.cli.plan_options import InspectOptions
from counton.cli.print_forms import (
    Console,
    check_chart,
    print_json,
    warn_of_no_witness,
    warn_of_weak,
    working,
)
from counton.cli.run_words import EXACT
from counton.job.job import RowFormat
from counton.job.refusals import refuse, refuse_others
from counton.privacy.guarantees import guarantee_from, plural
from counton.released.counting import Bounded
from counton.released.look_report import Inspection, Swept, planned_halfwidths
from counton.run.private_look import BoundCost, activity, inspect, weigh

_WARNING = (
    "NOT PRIVATE: these are exact facts about the events. They are not protected, and no guarantee "
    "covers what you choose by them: use them for public data only"
)
#: Options that go with ``--exact``.
_EXACT = ("events", "user", "per", "time", "timezone", "plan", "exact", "plot", "width", "json")
#: Options of the command itself, unknown to `inspect`.
_PRINTED = ("events", "sweep", "plan", "exact", "plot", "width", "json")
#: Options of the command, by the names that notes mention.
_OPTIONS = {"at_most": "--at-most", "name": "--name"}
#: Options that ``--bounds`` excludes, and the reason.
_BOUNDS = dict.fromkeys(("sweep", "plan", "plot"), ", which asks for values, not for their number")


def print_inspection(options: InspectOptions, rows: RowFormat) -> None:
    """Print what `counton.inspect` estimates about a file's rows, such as how many events users
    have, and the bound that it suggests. With ``--exact``, print such facts without noise.
    """
    check_chart(options.plot, options.width)
    planned = _planned_releases(options)
    if options.exact:
        why = ", which shows exact numbers of events and spends nothing"
        refuse_others(options, _EXACT, field("exact", True), why)
        _print_exact(options, rows, planned)
        return
    _print_private(options, rows, planned)


def _planned_releases(options: InspectOptions) -> dict[str, Any]:
    """Parse the option ``--plan``: the statistic, steps and guarantee of the stream that will count
    the users' events.

    The bound on a user's events is chosen for this stream. Without the option the result is empty.
    """
    if options.plan is None:
        return {}
    from counton.cli.statistic_command import parse_words

    statistic, job = parse_words("plan", options.plan)
    guarantee = guarantee_from(job.promise.epsilon, job.promise.delta, job.promise.rho)
    if (job.times.steps is None and job.times.around is None) or guarantee is None:
        raise InvalidInput(
            f"{field('plan', options.plan)} states no number of windows, or no privacy loss; state "
            "both, as in 'count --steps 366 --epsilon 1'"
        )
    names = ("metric", "release", "simple", "around", "most_a_window")
    stated = {name: job.option(name) for name in names if job.states(name)}
    return {"of": statistic, "steps": job.times.steps, "guarantee": guarantee, **stated}


def _print_private(options: InspectOptions, rows: RowFormat, planned: dict[str, Any]) -> None:
    errors, arguments = Console(stderr=True), {**_inspect_arguments(options), **vars(rows)}
    if options.bounds is not None:
        refuse(options, _BOUNDS, field("bounds", options.bounds))
    tried = None if options.sweep is None else numbers_of(options.sweep, "sweep")
    if not all(number.is_integer() and number >= 1 for number in tried or ()):
        raise InvalidInput(
            f"{field('sweep', options.sweep)} is not a list of whole numbers of at least 1; write "
            "it as in 1,2,5,10"
        )
    if options.plot is not None and options.plan is None:
        raise InvalidInput(
            f"{field('plot', str(options.plot))} shows left-out events beside noise, and the noise "
            f"is known only from a plan; give {field('plan')}, as in 'count --steps 366 --epsilon "
            "1'"
        )
    if planned:  # a refusal here spends nothing
        planned_halfwidths([1], **planned)
    warn_of_no_witness(errors, (options.state, [options.key], None))
    aside: list[int] = []
    with working(errors) as progress:
        found = inspect(options.events, progress=progress, tell_set_aside=aside.append, **arguments)
    if any(aside):
        errors.write_line(f"{EXACT}: rows that cannot be read, set aside: {aside[0]:,}")
    definition = found.released.numbers.definition
    loss = options.epsilon or options.rho
    warn_of_weak(errors, definition.guarantee, definition.unit, loss)
    swept: Sequence[Swept] = ()
    if not found.of_values:
        swept = found.sweep(None if tried is None else [*map(int, tried)], **planned)
    if options.plot is not None and found.events is not None:  # else it finds no user
        noise = [(one.halfwidth or 0.0) / found.events for one in swept]
        lost = [1 - (one.kept or 0.0) for one in swept]
        what = "estimated from a private release; noise: half-width of the last total"
        _draw(options, [one.most for one in swept], noise, lost, what)
    if options.json:
        print_json(
            {
                "state": options.state,
                **found.to_dict(),
                "sweep": [one._asdict() for one in swept],
                "notes": found.notes(_OPTIONS),
            }
        )
        return
    console = Console()
    for words in found.words():
        console.write_line(words, bold=True)
    if found.recommendation is not None:
        words = " ".join(f"--{name} {it}" for name, it in found.recommendation.options.items())
        console.write_line(f"{found.advice}: {words}")
    for note in found.notes(_OPTIONS):
        console.write_line(f"note: {note}")
    console.write_line("")
    console.write_words(_protection(found))
    if swept:
        _print_sweep(console, found, swept, options)
    console.write_files(None, options.plot)


def _inspect_arguments(options: InspectOptions) -> dict[str, Any]:
    if options.state is None:
        raise InvalidInput(
            f"{field('state')} is missing: a private answer is a release, which the ledger of a "
            f"state records; give {field('state', 'visits.db')} and {field('epsilon', '0.1')} for "
            f"example. For public data {field('exact', True)} shows exact numbers"
        )
    found = {name: value for name, value in vars(options).items() if name not in _PRINTED}
    return {**found, "share": numbers_of(options.share, "share")}


def _protection(found: Inspection) -> list[tuple[str, str]]:
    numbers, unit = found.released.numbers, found.unit
    definition = numbers.definition
    cells = len(definition.statistic.parameters["edges"]) - 1
    return [
        ("protected", found.protection),
        ("guarantee", str(definition.guarantee)),
        ("", definition.guarantee.meaning_for(unit)),
        ("against", "anyone who knows or chooses all other rows"),
        ("released", f"once, as {numbers.design.name!r}: how many lie in {cells:,} cells"),
    ]


def _print_sweep(
    console: Console, found: Inspection, swept: Sequence[Swept], options: InspectOptions
) -> None:
    table = Table(box=SIMPLE_HEAD)
    planned = options.plan is not None
    for name in ("most", "events kept", f"interval {percent(found.level)}%"):
        table.add_column(name, justify="right")
    if planned:
        table.add_column("half-width", justify="right")
    for one in swept:
        kept = "" if one.kept is None else f"{one.kept:.1%}"
        half = [] if one.halfwidth is None else [f"±{figures(one.halfwidth)}"]
        table.add_row(f"{one.most:,}", kept, f"{one.lower:.1%} to {one.upper:.1%}", *half)
    console.write_table(table)
    console.write_line(
        f"events kept: share of the first {found.at_most:,} events of all {plural(found.unit)}, "
        f"from what was released; each interval holds by itself"
    )
    if planned:
        console.write_line(
            f"half-width: of an interval of the last release of '{options.plan}', from the plan "
            f"alone"
        )
    else:
        console.write_line(
            "with --plan 'count --steps 366 --epsilon 1' also the error of the noise"
        )


def _print_exact(options: InspectOptions, rows: RowFormat, planned: dict[str, Any]) -> None:
    """Print, for each bound on a user's events, the fraction of events that it leaves out, and the
    error of the noise.
    """
    found = activity(
        options.events,
        options.user,
        per=options.per,
        time=options.time,
        timezone=options.timezone,
        **vars(rows),
    )
    bounds = weigh(found, **{name: it for name, it in planned.items() if name != "of"})
    best = min(bounds, key=lambda bound: bound.error or 0) if planned else None
    whose = Bounded(1, options.per).of(options.user)
    if options.plot is not None:
        noise = [(bound.std or 0) / found.events for bound in bounds]
        what = "NOT PRIVATE: drawn from the exact events; noise: typical deviation of a total"
        lost = [bound.dropped for bound in bounds]
        _draw(options, [bound.most for bound in bounds], noise, lost, what)
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
    console.write_line(_WARNING, bold=True)
    console.write_line(
        f"{found.events:,} events of {int(found.units.sum()):,} units ({whose}); the largest has "
        f"{found.largest:,}"
    )
    if found.without:
        console.write_line(
            f"{found.without:,} rows have no user, or no time that can be read: count refuses them "
            f"or, with --bad-rows, sets them aside"
        )
    _print_bounds(console, bounds, best)


def _print_bounds(console: Console, bounds: Sequence[BoundCost], best: BoundCost | None) -> None:
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
    console.write_table(table)
    if best is None:
        console.write_line(
            "with --plan 'count --steps 366 --epsilon 1' also the error of the noise"
        )
        return
    console.write_line(
        f"noise and loss together are least at --most {best.most}: 'both' is the root of the "
        f"noise's variance plus the squared number of dropped events, for the last total"
    )


def _draw(
    options: InspectOptions,
    most: Sequence[int],
    noise: Sequence[float],
    lost: Sequence[float],
    what: str,
) -> None:
    from counton.charts.plan_charts import plot_bounds
    from counton.run.written_files import write_figure

    assert options.plot is not None
    period = "" if options.per is None else f" in each {options.per}"
    figure = plot_bounds(
        most,
        noise,
        lost,
        f"At most N events of a {options.user}{period}",
        what,
        width=options.width,
    )
    write_figure(figure, options.plot)
