"""What every statistic's command does: run the job, write its outputs, print what is released.

Exact facts about the events are for the operator's eyes: they go to stderr.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from counton.cli.options import OnceOptions, Printing
from counton.cli.printing import (
    print_files,
    print_json,
    print_line,
    print_table,
    print_words,
    warn_of_no_witness,
    warn_of_weak,
    working,
)
from counton.cli.readings import show_rows
from counton.cli.words import SetAside, operator_notes, progress_line, protection
from counton.exact import figures, quantity
from counton.jobs import Definition, Job, Outcome, Released, run
from counton.jobs.job import checked
from counton.jobs.runs import recalled
from counton.jobs.writing import Outputs, Written

if TYPE_CHECKING:
    pass


#: Groups in the table on the screen, at most; and the option that writes them all.
_SHOWN, _OUT = 20, "--out"


def perform(job: Job, printing: Printing | None = None, *, bar: bool = False) -> None:
    """Release what is due, then write and print from the journal.

    Args:
        job: what is asked.
        printing: how it is printed.
        bar: show progress also where nobody watches a terminal.

    Raises:
        CountonError: see `counton.jobs.run`.
    """
    printing = Printing() if printing is None else printing
    report = carried_out(job, silently=printing.json, bar=bar)
    if printing.save is not None:
        from counton.jobs.jobfile import save

        save(job, printing.save)
        print_line(Console(stderr=True), f"saved as job {job.name} in {printing.save}")
    if printing.json:
        print_json(report)
    if report["not_drawn"]:
        raise OSError(report["not_drawn"])


def perform_table(job: Job, printing: Printing, once: OnceOptions) -> None:
    """A table over time, or one that is released once; or how accurate it would be.

    Raises:
        CountonError: see `counton.jobs.run`.
    """
    job = job.having(replace=job.given("replace") or once.move)
    if not once.plan:
        perform(job, printing)
        return
    from counton.cli.tables import print_plan

    print_plan(job, printing)


def carried_out(job: Job, *, silently: bool, bar: bool = False, about: str = "") -> dict[str, Any]:
    """Release what is due and write it; print it too unless silently. The machine's report.

    What went wrong with a chart is in the report alone: ``not_drawn``.

    Args:
        job: what is asked.
        silently: print what is for the operator alone.
        bar: show progress also where nobody watches a terminal.
        about: before what is for the operator, of one job of several.

    Raises:
        CountonError: see `counton.jobs.run`.
    """
    errors = Console(stderr=True)
    job = recalled(checked(job))
    outputs = Outputs.of(job)
    if not about:
        warn_of_no_witness(errors, (job.state, [job.key]))
    aside = SetAside.of(job)
    with (
        working(errors, always=bar) as progress,
        run(job, progress, approve=outputs.approve) as outcome,
    ):
        written = outputs.write(outcome, progress, warn=lambda _: None)
        definition, stated = outcome.definition, job.epsilon or job.rho
        warn_of_weak(errors, definition.guarantee, definition.unit, stated, about)
        for note in operator_notes(outcome, aside.new(outcome.tally.quarantined)):
            print_line(errors, f"{about}{note}")
        if silently:
            pass
        elif definition.once:
            from counton.cli.tables import show_table

            show_table(Console(), outcome, written, outputs)
        elif written.table is None:
            show(Console(), outcome, written, outputs)
        else:
            show_rows(Console(), outcome, written, outputs)
        return as_json(outcome, written, outputs)


def show(
    console: Console,
    outcome: Outcome,
    written: Written,
    outputs: Outputs,
) -> None:
    """Print words and the last step's table."""
    released = written.released
    assert released is None or isinstance(released, Released)
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
    for every, path in outputs.sums.items():
        print_line(console, f"sums of {every} written to {path}")
    print_files(console, outputs.out, outputs.plot if written.drawn else None)


def noise(released: Released) -> str:
    """Standard deviations of what was released last."""
    parts, step = [], f"{released.steps[-1]:,}"
    if released.totals is not None:
        parts.append(f"{figures(released.totals.std[-1])} at step {step}")
    if released.windows is not None:
        parts.append(f"{figures(released.windows.std[-1])} of window {step} by itself")
    return ", ".join(parts)


def _heading(definition: Definition, released: Released) -> str:
    end, counted = (
        str(times[-1].astype("datetime64[s]")).replace("T", " ")
        for times in (released.local_ends(), released.local_counted())
    )
    zone, step = definition.windows.timezone, f"{released.steps[-1]:,}"
    until = f"up to {counted}, released at" if released.delay else "after"
    if definition.release == "windows":
        return f"\n{definition.subject} in window {step}, which ended {end}, {zone}"
    return f"\nrunning {definition.subject} {until} step {step} ({end}, {zone})"


def _table(released: Released) -> Table:
    """The last step: its largest groups, in their declared order."""
    table = Table()
    table.add_column(released.definition.by or "")
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


def as_json(outcome: Outcome, written: Written, outputs: Outputs) -> dict[str, Any]:
    """The machine-readable report."""
    job, released, table = outputs.job, written.released, written.table
    definition, until, cut = outcome.definition, outcome.until, outcome.definition.cut
    drawn = released is None or written.drawn
    report: dict[str, Any] = {
        "state": str(job.state),
        "name": job.name,
        "statistic": {"name": definition.what, **definition.statistic.to_dict()},
        "steps": definition.strategy.horizon if definition.cut is None else definition.cut.steps,
        "once": definition.once,
        "released": outcome.after,
        "new": outcome.after - outcome.before,
        "until": None if until is None or cut is None else cut.at(until),
        "until_from_data": not outcome.until_stated,
        "protected": dict(protection(outcome))["protected"],
        "people": definition.unprotected,
        "unit": definition.unit,
        "contribution": definition.contribution.to_dict(),
        "guarantee": definition.guarantee.to_dict(),
        "release": definition.release,
        "strategy": repr(definition.strategy),
        "delay": definition.strategy.delay,
        "level": outputs.level,
        "out": None if outputs.out is None else str(outputs.out),
        "sums": {every: str(path) for every, path in outputs.sums.items()},
        "plot": None if outputs.plot is None or not drawn else str(outputs.plot),
        "not_drawn": written.not_drawn,
        "last": None,
        "not_private": {
            "rows": outcome.tally.rows,
            "late": outcome.late,
            "dropped": sum(
                (
                    *(outcome.tally.before, outcome.tally.beyond, outcome.tally.unknown),
                    *(outcome.tally.skipped, outcome.beyond_most, outcome.closed),
                )
            ),
            "quarantined": outcome.tally.quarantined,
        },
    }
    if released is None:
        return report
    last: dict[str, Any] = {"step": released.steps[-1]}
    report["last"] = last
    if definition.cut is not None:
        ends = definition.cut.ends(range(released.steps.stop))
        last["window_end"] = definition.cut.at(int(ends[-1]))
    if definition.once:
        report["last"] = last = {**released.facts()}
        last.pop("statistic")
    if table is not None:
        from counton.cli.readings import finite

        shown = table.drop("step", "window_start", "window_end", strict=False)
        last["rows"] = finite(shown).to_dicts()
    elif isinstance(released, Released):
        last["counted_until"] = definition.windows.at(released.counted_until())
        last |= _last(released)
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
