"""What the command line prints: words, a table, JSON. Only released values, except on stderr."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from counton.cli.ages import loss_in_words
from counton.cli.option_sets import EventOptions
from counton.cli.printing import print_files, print_line, print_table, print_words
from counton.events.windows import load_zone, moment
from counton.jobs import Definition, Outcome, Released
from counton.plots.totals import quantity


def operator_notes(outcome: Outcome) -> list[str]:
    """Exact facts about the input, for the operator's eyes only."""
    tally, windows = outcome.tally, outcome.definition.windows
    start = windows.start.isoformat()
    end = moment(windows.end).isoformat()
    if outcome.after > outcome.before:
        counted_at = f"counted at step {outcome.before + 1:,}"
    elif outcome.after < windows.steps:
        counted_at = "to be counted at the next release"
    else:
        counted_at = "counted nowhere: the stream has had its last release"
    notes = [
        (f"rows that arrived late for windows released before, {counted_at}", outcome.late),
        (f"rows before the first window ({start}), counted nowhere", tally.before),
        (f"rows after the last window ({end}), counted nowhere", tally.beyond),
        ("rows of undeclared groups, counted nowhere", tally.unknown),
    ]
    return [f"not private, for the operator: {what}: {rows:,}" for what, rows in notes if rows]


def protection(outcome: Outcome) -> list[tuple[str, str]]:
    """What is protected, in words: unit, relation, guarantee, strategy, noise, until."""
    definition = outcome.definition
    unit = definition.contribution.describe(definition.unit)
    lines = [
        ("protected", f"{unit}; one row of the events is one {definition.unit}"),
        ("guarantee", f"{definition.guarantee}, {definition.guarantee.scope}"),
        ("", definition.guarantee.meaning_for(definition.unit)),
        ("strategy", repr(definition.strategy)),
    ]
    losses = loss_in_words(definition.guarantee, definition.strategy, definition.windows.every)
    if losses is not None:
        lines.insert(3, ("", f"loss by age: {losses}"))
    if definition.strategy.delay:
        windows = f"{definition.strategy.delay:,} window{'s' * (definition.strategy.delay > 1)}"
        lines.append(("delay", f"each release counts up to {windows} before its own"))
    zone = load_zone(definition.windows.timezone)
    until = moment(outcome.until).astimezone(zone).isoformat()
    if outcome.until_stated:
        lines.append(("released", f"windows that ended by {until}, as stated"))
    else:
        lines.append(
            (
                "released",
                f"windows that ended by {until}, the time of the newest event; that time comes "
                f"from the data and is not protected: state --until to avoid this",
            )
        )
    return lines


def progress_line(outcome: Outcome) -> str:
    """How many steps are new."""
    new = outcome.after - outcome.before
    forever = outcome.definition.strategy.horizon is None
    of = "" if forever else f" of {outcome.definition.windows.steps:,}"
    if new == 0 and outcome.after == 0:
        return "Nothing released: no window has ended yet."
    if new == 0:
        return f"Nothing new to release: {outcome.after:,}{of} windows are released."
    if new == 1:
        return f"Released 1 new window (step {outcome.after:,}{of})."
    return f"Released {new:,} new windows (steps {outcome.before + 1:,} to {outcome.after:,}{of})."


def show(
    console: Console,
    outcome: Outcome,
    released: Released | None,
    options: EventOptions,
) -> None:
    """Print words and the last step's table."""
    print_line(console, progress_line(outcome), bold=True)
    words = protection(outcome)
    if released is not None:
        last = f"{released.std[-1]:,.4g}"
        words.append(("noise", f"standard deviation {last} at step {released.steps[-1]:,}"))
    print_words(console, words)
    if released is None:
        return
    print_line(console, _heading(outcome.definition, released))
    print_table(console, _table(outcome.definition, released, options.level))
    print_files(console, options.out, options.plot)


def subject(definition: Definition) -> str:
    """What is counted or added up."""
    if definition.what == "count":
        return f"number of {plural(definition.unit)}"
    return f"sum of {definition.columns.value}"


def plural(unit: str) -> str:
    """A unit's plural, for regular English words.

    >>> plural("departure"), plural("query"), plural("visits")
    ('departures', 'queries', 'visits')
    """
    if unit.endswith("y") and unit[-2:-1] not in "aeiou":
        return f"{unit[:-1]}ies"
    return unit if unit.endswith("s") else f"{unit}s"


def _heading(definition: Definition, released: Released) -> str:
    end, counted = (
        str(times[-1].astype("datetime64[s]")).replace("T", " ")
        for times in (released.local_ends(), released.local_counted())
    )
    zone, step = definition.windows.timezone, f"{released.steps[-1]:,}"
    until = f"up to {counted}, released at" if released.delay else "after"
    return f"\nrunning {subject(definition)} {until} step {step} ({end}, {zone})"


def _table(definition: Definition, released: Released, level: float) -> Table:
    table = Table()
    table.add_column(definition.columns.group or "")
    table.add_column("estimate", justify="right")
    table.add_column(f"{100 * level:g}% interval", justify="right")
    half = float(released.half[-1])
    for index, group in enumerate(definition.groups):
        value, lower, upper = (
            quantity(float(array[-1, index]), half, array.dtype.kind == "i")
            for array in (released.estimates, released.lower, released.upper)
        )
        table.add_row(group, value, f"{lower} to {upper}")
    return table


def as_json(outcome: Outcome, released: Released | None, options: EventOptions) -> dict[str, Any]:
    """The machine-readable report."""
    definition = outcome.definition
    report: dict[str, Any] = {
        "state": options.state,
        "name": options.name,
        "steps": definition.windows.steps,
        "released": outcome.after,
        "new": outcome.after - outcome.before,
        "until": moment(outcome.until).isoformat(),
        "until_from_data": not outcome.until_stated,
        "protected": dict(protection(outcome))["protected"],
        "unit": definition.unit,
        "contribution": definition.contribution.to_dict(),
        "guarantee": definition.guarantee.to_dict(),
        "strategy": repr(definition.strategy),
        "delay": definition.strategy.delay,
        "level": options.level,
        "out": None if options.out is None else str(options.out),
        "plot": None if options.plot is None else str(options.plot),
        "last": None,
    }
    if released is not None:
        report["last"] = {
            "step": released.steps[-1],
            "window_end": moment(int(definition.windows.ends(released.steps)[-1])).isoformat(),
            "counted_until": moment(released.counted_until()).isoformat(),
            "std": float(released.std[-1]),
            "groups": [
                {
                    "group": group,
                    "estimate": released.estimates[-1, index].item(),
                    "lower": released.lower[-1, index].item(),
                    "upper": released.upper[-1, index].item(),
                }
                for index, group in enumerate(definition.groups)
            ],
        }
    return report
