"""The commands ``count`` and ``sum``: run the job, write its outputs, print what is released.

Exact facts about the events are for the operator's eyes: they go to stderr.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from counton.cli.options import Outputs
from counton.cli.printing import (
    print_files,
    print_json,
    print_line,
    print_table,
    print_words,
    warn_of_weak,
    working,
)
from counton.errors import InvalidInput, field
from counton.events.files import event_paths, refuse_among_events
from counton.events.windows import load_zone, moment
from counton.exact import quantity
from counton.jobs import Definition, Job, Outcome, Progress, Released, run
from counton.jobs.definition import Continued
from counton.jobs.job import EXPIRING
from counton.jobs.outputs import about, check_outputs, pictures_of, write_table
from counton.jobs.runs import plural, subject
from counton.mechanisms.intervals import check_level
from counton.store.whole_file import replace_file

if TYPE_CHECKING:
    from counton.jobs.discovery import Discovery

#: Groups in the table on the screen, at most; and the option that writes them all.
_SHOWN, _OUT = 20, "--out"


def perform(request: Job, outputs: Outputs, *, bar: bool = False) -> None:
    """Release what is due, then write and print from the journal.

    Args:
        request: what is asked of the job.
        outputs: what is done with its result.
        bar: show progress also where nobody watches a terminal.

    Raises:
        CountonError: see `counton.jobs.run`.
    """
    errors = Console(stderr=True)
    sums = _files_of_sums(outputs)
    read = [*event_paths(request.events, request.file_format), request.domain]
    for out in (outputs.out, *sums.values()):
        check_outputs(
            out,
            outputs.plot,
            state=request.state,
            key=request.key,
            read=read,
        )
        refuse_among_events(request.events, out)
    check_level(outputs.level)

    def approve(definition: Definition) -> None:
        if sums and definition.discovery is not None:
            raise InvalidInput(
                f"{field('sums', outputs.sums)} does not go with groups that nobody declared, each "
                f"of which is shown from some window on; leave it out"
            )
        for every in sums:
            from counton.jobs.periods import check_periods

            check_periods(definition.windows, every, definition.strategy.delay)

    with (
        working(errors, always=bar) as progress,
        run(request, progress, approve=approve) as outcome,
    ):
        released = None
        if outcome.after:
            progress("reading the journal", 0.7)
            released = outcome.released(outputs.level)
            _write(outcome, released, outputs, sums, progress)
    definition, stated = outcome.definition, request.epsilon or request.rho
    warn_of_weak(errors, definition.guarantee, definition.unit, stated)
    for note in operator_notes(outcome):
        print_line(errors, note)
    if outputs.json:
        print_json(as_json(outcome, released, request, outputs, sums))
    else:
        show(Console(), outcome, released, outputs, sums)


def _files_of_sums(outputs: Outputs) -> dict[str, Path]:
    """Where sums over periods are written, by the length of a period."""
    if outputs.sums is None:
        return {}
    out = outputs.out
    if out is None:
        raise InvalidInput(
            f"{field('sums', outputs.sums)} is written beside the table; give {field('out')} too"
        )
    from counton.jobs.periods import parsed_period

    named = [every.strip() for every in outputs.sums.split(",")]
    for every in named:
        parsed_period(every)
    return {every: out.with_name(f"{out.stem}.{every}{out.suffix}") for every in named}


def _write(
    outcome: Outcome,
    released: Released,
    outputs: Outputs,
    sums: dict[str, Path],
    progress: Progress,
) -> None:
    facts = about(outcome.stream.terms, outputs.level)
    if outputs.out is not None:
        progress("writing the table", 0.75)
        write_table(released.lazy(), outputs.out, facts)
    for every, path in sums.items():
        write_table(released.sums(every), path, facts)
    if outputs.plot is None or not released.groups:  # as long as no group is large enough
        return
    progress("drawing", 0.85)
    from counton.plots.style import save_figure

    pictures = pictures_of(outcome.definition.release, outputs.plot)
    for what, figure in released.figures().items():
        replace_file(pictures[what], partial(save_figure, figure))


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
    before = outcome.definition.continues  # which has counted them, unless they came late
    nowhere = "counted nowhere" if before is None else "counted by no window here"
    unnamed = "" if outcome.definition.discovery is None else " (no label that can be shown)"
    notes = [
        (f"rows that arrived late for windows released before, {counted_at}", outcome.late),
        (f"rows before the first window ({start}), {nowhere}", tally.before),
        (f"rows after the last window ({end}), counted nowhere", tally.beyond),
        (f"rows of undeclared groups{unnamed}, counted nowhere", tally.unknown),
        ("rows that lack something, counted nowhere", tally.skipped),
        ("rows that cannot be read, set aside", tally.quarantined),
        ("rows beyond what may count of their user, counted nowhere", outcome.over),
        ("rows that were counted before, and not again", outcome.known),
        ("rows too late to be looked at, counted nowhere", outcome.closed),
        ("rows that waited in the stream that has ended, not handed over", outcome.dropped),
    ]
    return [f"not private, for the operator: {what}: {rows:,}" for what, rows in notes if rows]


def protection(outcome: Outcome) -> list[tuple[str, str]]:
    """What is protected, in words: unit, relation, guarantee, strategy, noise, until."""
    definition = outcome.definition
    unit = definition.contribution.describe(definition.unit)
    people, columns = definition.people, definition.columns
    if people is None:
        one = f"one row of the events is one {definition.unit}"
        if columns.id is not None:
            from counton.jobs.people import LATE_DAYS

            one = (
                f"all rows of one id are one {definition.unit}, until {LATE_DAYS} days after it "
                f"was counted; an id used again later may be another one, which loses again"
            )
        lines = [
            ("protected", f"{unit}; {one}"),
            (
                "",
                f"people are not protected: one with 100 {plural(definition.unit)} has 100 times "
                f"the loss; --user COLUMN --most N protects whoever COLUMN tells apart",
            ),
        ]
    else:
        lines = [("protected", f"{unit}; whose events they are says {columns.user!r}")]
    lines += [
        ("guarantee", f"{definition.guarantee}, {definition.guarantee.scope}"),
        ("", definition.guarantee.meaning_for(definition.unit)),
        ("strategy", repr(definition.strategy)),
    ]
    if definition.choice == EXPIRING:
        from counton.cli.ages import loss_in_words

        losses = loss_in_words(definition.guarantee, definition.strategy, definition.windows.every)
        lines.insert(4 if people is None else 3, ("", f"loss by age: {losses}"))
    if definition.discovery is not None:
        lines.append(("groups", _discovered(definition, definition.discovery)))
    if definition.strategy.delay:
        windows = f"{definition.strategy.delay:,} window{'s' * (definition.strategy.delay > 1)}"
        lines.append(("delay", f"each release counts up to {windows} before its own"))
    if definition.continues is not None:
        lines += _succession(definition, definition.continues)
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


def _discovered(definition: Definition, discovery: Discovery) -> str:
    """How groups are found that nobody declared."""
    margin = float(Fraction(discovery.margin))
    return (
        f"found in the events; each is shown from the first window on in which its estimate "
        f"reaches {discovery.change:,} and {margin:.2f} standard deviations; one that one "
        f"{definition.unit} alone brings is, in all releases together, with probability below "
        f"delta = {float(Fraction(discovery.delta)):g}"
    )


def _succession(definition: Definition, before: Continued) -> list[tuple[str, str]]:
    """Which stream this one goes on from, and what both together cost."""
    totals = (
        "totals go on from its last release, whose noise is in them too"
        if before.totals
        else "totals begin anew"
    )
    if definition.people is not None:
        cost = "whoever is in both loses what both say: they add up in the ledger"
    elif definition.columns.id is not None:
        cost = "an id with rows in both loses what both say: they add up in the ledger"
    else:
        cost = (
            f"an event lies in the windows of one of them only, and is protected as that one says; "
            f"what comes late for {before.name!r} is counted nowhere"
        )
    return [
        ("continues", f"{before.name!r}, which ended at step {before.step:,}; {totals}"),
        ("", cost),
    ]


def progress_line(outcome: Outcome) -> str:
    """How many steps are new."""
    new = outcome.after - outcome.before
    if outcome.again:
        return (
            f"These events were counted by an earlier run: nothing was done, and what follows is "
            f"from the journal of {outcome.after:,} windows."
        )
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
    sums: dict[str, Path],
) -> None:
    """Print words and the last step's table."""
    print_line(console, progress_line(outcome), bold=True)
    words = protection(outcome)
    if released is not None:
        words.append(("noise", f"standard deviation {noise(released)}"))
    print_words(console, words)
    if released is None:
        return
    print_line(console, _heading(outcome.definition, released))
    if released.groups:
        print_table(console, _table(released.largest(_SHOWN)))
    else:
        print_line(console, "no group is large enough to be shown yet")
    smaller = len(released.groups) - _SHOWN
    if smaller > 0:
        print_line(console, f"and {smaller:,} smaller groups: a table ({_OUT}) has them all")
    for every, path in sums.items():
        print_line(console, f"sums of {every} written to {path}")
    print_files(console, outputs.out, outputs.plot if released.groups else None)


def noise(released: Released) -> str:
    """Standard deviations of what was released last."""
    parts, step = [], f"{released.steps[-1]:,}"
    if released.totals is not None:
        parts.append(f"{released.totals.std[-1]:,.4g} at step {step}")
    if released.windows is not None:
        parts.append(f"{released.windows.std[-1]:,.4g} of window {step} by itself")
    return ", ".join(parts)


def _heading(definition: Definition, released: Released) -> str:
    end, counted = (
        str(times[-1].astype("datetime64[s]")).replace("T", " ")
        for times in (released.local_ends(), released.local_counted())
    )
    zone, step = definition.windows.timezone, f"{released.steps[-1]:,}"
    until = f"up to {counted}, released at" if released.delay else "after"
    if definition.release == "windows":
        return f"\n{subject(definition)} in window {step}, which ended {end}, {zone}"
    return f"\nrunning {subject(definition)} {until} step {step} ({end}, {zone})"


def _table(released: Released) -> Table:
    """The last step: its largest groups, in their declared order."""
    table = Table()
    table.add_column(released.definition.columns.group or "")
    shown = [series for series in released.last if series is not None]
    for name in ("estimate", "in this window")[: len(shown)]:
        table.add_column(name, justify="right")
        table.add_column(f"{100 * released.level:g}% interval", justify="right")
    columns = []
    for series in shown:
        half, whole = float(series.half[0]), series.estimates.dtype.kind == "i"
        value, lower, upper = (
            [quantity(float(number), half, whole) for number in ends[0]]
            for ends in (series.estimates, series.lower, series.upper)
        )
        ends = [f"{low} to {high}" for low, high in zip(lower, upper, strict=True)]
        columns += [value, ends]
    for group, *cells in zip(released.groups, *columns, strict=True):
        table.add_row(group, *cells)
    return table


def as_json(
    outcome: Outcome,
    released: Released | None,
    request: Job,
    outputs: Outputs,
    sums: dict[str, Path],
) -> dict[str, Any]:
    """The machine-readable report."""
    definition = outcome.definition
    drawn = released is None or bool(released.groups)
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
        "release": definition.release,
        "strategy": repr(definition.strategy),
        "delay": definition.strategy.delay,
        "level": outputs.level,
        "out": None if outputs.out is None else str(outputs.out),
        "sums": {every: str(path) for every, path in sums.items()},
        "plot": None if outputs.plot is None or not drawn else str(outputs.plot),
        "last": None,
        "not_private": {
            "rows": outcome.tally.rows,
            "late": outcome.late,
            "dropped": sum(
                (
                    *(outcome.tally.before, outcome.tally.beyond, outcome.tally.unknown),
                    *(outcome.tally.skipped, outcome.over, outcome.closed),
                )
            ),
            "quarantined": outcome.tally.quarantined,
        },
    }
    if released is not None:
        report["last"] = {
            "step": released.steps[-1],
            "window_end": moment(int(definition.windows.ends(released.steps)[-1])).isoformat(),
            "counted_until": moment(released.counted_until()).isoformat(),
            **_last(released),
        }
    return report


def _last(released: Released) -> dict[str, Any]:
    """The last step: deviations, and numbers by group; windows' names begin with ``window_``."""
    last: dict[str, Any] = {}
    groups: list[dict[str, Any]] = [{"group": group} for group in released.groups]
    for prefix, series in zip(("", "window_"), released.last, strict=True):
        if series is None:
            continue
        last[f"{prefix}std"] = float(series.std[0])
        for name, ends in (
            ("estimate", series.estimates),
            ("lower", series.lower),
            ("upper", series.upper),
        ):
            for row, number in zip(groups, ends[0].tolist(), strict=True):
                row[f"{prefix}{name}"] = number
    return {**last, "groups": groups}
