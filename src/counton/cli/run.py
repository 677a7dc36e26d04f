"""What every statistic's command does: run the job, write its outputs, print what is released.

Exact facts about the events are for the operator's eyes: they go to stderr.
"""

from __future__ import annotations

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
from counton.cli.readings import ranked_rows, ranks, show_rows
from counton.cli.words import operator_notes, progress_line, protection
from counton.errors import InvalidInput, field
from counton.events.files import event_paths, refuse_among_events
from counton.events.windows import moment
from counton.exact import quantity
from counton.jobs import Definition, Job, Outcome, Progress, Released, run
from counton.jobs.outputs import about, check_outputs, pictures_of, write_table
from counton.jobs.runs import subject
from counton.jobs.shown import ReleasedStatistic, Shown, check_shown
from counton.mechanisms.intervals import check_level
from counton.store.whole_file import replace_file

if TYPE_CHECKING:
    import polars as pl


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

    for given in ("title", "axis"):
        if getattr(outputs, given) is not None and outputs.plot is None:
            raise InvalidInput(
                f"{field(given, getattr(outputs, given))} is of a chart; give {field('plot')} too"
            )
    shown = shown_by(request, outputs)

    def approve(definition: Definition) -> None:
        check_shown(shown, definition.statistic)
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
        released: Released | ReleasedStatistic | None = None
        table = None
        if outcome.after:
            progress("reading the journal", 0.7)
            released = outcome.shown(outputs.level, shown)
            if ranks(request, outcome.definition):
                table = ranked_rows(request, released, outputs)
            else:
                _write(outcome, released, outputs, sums, progress)
                table = None if isinstance(released, Released) else released.last
        definition, stated = outcome.definition, request.epsilon or request.rho
        warn_of_weak(errors, definition.guarantee, definition.unit, stated)
        for note in operator_notes(outcome):
            print_line(errors, note)
        if outputs.json:
            print_json(as_json(outcome, released, table, request, outputs, sums))
        elif table is None and (released is None or isinstance(released, Released)):
            show(Console(), outcome, released, outputs, sums)
        else:
            assert released is not None
            assert table is not None
            show_rows(Console(), outcome, released, table, request, outputs)


def shown_by(request: Job, outputs: Outputs) -> Shown:
    """What is shown of a statistic's readings."""
    from counton.cli.readings import asked_of

    return Shown(asked_of(request, outputs), outputs.over, request.top)


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
    released: Released | ReleasedStatistic,
    outputs: Outputs,
    sums: dict[str, Path],
    progress: Progress,
) -> None:
    facts = about(outcome.stream.terms, outputs.level)
    if not outcome.definition.plain:
        facts["statistic"] = outcome.stream.terms.statistic
    if outputs.out is not None:
        progress("writing the table", 0.75)
        write_table(released.lazy(), outputs.out, facts)
    for every, path in sums.items():
        assert isinstance(released, Released)
        write_table(released.sums(every), path, facts)
    if outputs.plot is None or not _drawn(released):
        return
    progress("drawing", 0.85)
    from counton.plots.style import save_figure

    if isinstance(released, Released):
        pictures = pictures_of(outcome.definition.release, outputs.plot)
        for what, figure in released.figures().items():
            replace_file(pictures[what], partial(save_figure, figure))
        return
    figures = released.figures(title=outputs.title, axis=outputs.axis)
    replace_file(outputs.plot, partial(save_figure, figures["statistic"]))


def _drawn(released: Released | ReleasedStatistic) -> bool:
    """Whether there is anything to draw: not as long as no group is large enough."""
    if isinstance(released, Released):
        return bool(released.groups)
    return released.last.height > 0


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
    released: Released | ReleasedStatistic | None,
    table: pl.DataFrame | None,
    request: Job,
    outputs: Outputs,
    sums: dict[str, Path],
) -> dict[str, Any]:
    """The machine-readable report."""
    definition, until = outcome.definition, outcome.until
    drawn = released is None or _drawn(released)
    report: dict[str, Any] = {
        "state": str(request.state),
        "name": request.name,
        "statistic": {"name": definition.what, **definition.statistic.to_dict()},
        "steps": definition.strategy.horizon if definition.cut is None else definition.cut.steps,
        "released": outcome.after,
        "new": outcome.after - outcome.before,
        "until": None if until is None else moment(until).isoformat(),
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
    if released is None:
        return report
    last: dict[str, Any] = {"step": released.steps[-1]}
    report["last"] = last
    if definition.cut is not None:
        ends = definition.cut.ends(range(released.steps.stop))
        last["window_end"] = moment(int(ends[-1])).isoformat()
    if table is not None:
        from counton.cli.readings import finite

        shown = table.drop("step", "window_start", "window_end", strict=False)
        last["rows"] = finite(shown).to_dicts()
    elif isinstance(released, Released):
        last["counted_until"] = moment(released.counted_until()).isoformat()
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
