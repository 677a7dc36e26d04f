"""The commands ``count`` and ``sum``: run the job, write its outputs, print what is released.

Exact facts about the events are for the operator's eyes: they go to stderr.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from counton.cli.options import Outputs
from counton.cli.outputs import check_outputs, write_table
from counton.cli.printing import (
    print_files,
    print_json,
    print_line,
    print_table,
    print_words,
    working,
)
from counton.events.windows import load_zone, moment
from counton.exact import quantity
from counton.jobs import Definition, Outcome, Progress, Released, Request, run
from counton.jobs.request import EXPIRING
from counton.mechanisms.intervals import check_level
from counton.store.whole_file import replace_file


def perform(request: Request, outputs: Outputs, *, bar: bool = False) -> None:
    """Release what is due, then write and print from the journal.

    Args:
        request: what is asked of the job.
        outputs: what is done with its result.
        bar: show progress also where nobody watches a terminal.

    Raises:
        CountonError: see `counton.jobs.run`.
    """
    errors = Console(stderr=True)
    check_outputs(
        outputs.out,
        outputs.plot,
        state=request.state,
        key=request.key,
        read=[request.events, request.domain],
    )
    check_level(outputs.level)

    def approve(definition: Definition) -> None:
        if outputs.plot is not None:
            from counton.plots.totals import check_groups

            check_groups(len(definition.groups))

    with (
        working(errors, always=bar) as progress,
        run(request, progress, approve=approve) as outcome,
    ):
        released = None
        if outcome.after:
            progress("reading the journal", 0.7)
            released = outcome.released(outputs.level)
            _write(outcome, released, outputs, progress)
    for note in operator_notes(outcome):
        print_line(errors, note)
    if outputs.json:
        print_json(as_json(outcome, released, request, outputs))
    else:
        show(Console(), outcome, released, outputs)


def _write(outcome: Outcome, released: Released, outputs: Outputs, progress: Progress) -> None:
    if outputs.out is not None:
        progress("writing the table", 0.75)
        write_table(released.table(), outputs.out)
    if outputs.plot is None:
        return
    progress("drawing", 0.85)
    from counton.plots.style import save_figure
    from counton.plots.totals import plot_totals

    definition = outcome.definition
    by = f", by {definition.columns.group}" if definition.columns.group else ""
    figure = plot_totals(
        released.curves(),
        f"Running {subject(definition)}{by}",
        f"{definition.guarantee} protects each single {definition.unit} "
        f"({definition.contribution.neighbours}); bands: {100 * outputs.level:g}% intervals",
        f"since {released.local_start()}"
        + (f", each point released {released.delay:,} windows later" if released.delay else ""),
    )
    replace_file(outputs.plot, lambda name: save_figure(figure, name))


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
    if definition.choice == EXPIRING:
        from counton.cli.ages import loss_in_words

        losses = loss_in_words(definition.guarantee, definition.strategy, definition.windows.every)
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
    outputs: Outputs,
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
    print_table(console, _table(outcome.definition, released, outputs.level))
    print_files(console, outputs.out, outputs.plot)


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


def as_json(
    outcome: Outcome, released: Released | None, request: Request, outputs: Outputs
) -> dict[str, Any]:
    """The machine-readable report."""
    definition = outcome.definition
    report: dict[str, Any] = {
        "state": str(request.state),
        "name": request.name,
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
        "level": outputs.level,
        "out": None if outputs.out is None else str(outputs.out),
        "plot": None if outputs.plot is None else str(outputs.plot),
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
