"""The commands ``count`` and ``sum``: run the job, write its outputs, print its report."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from rich.console import Console

from counton.cli.option_sets import EventOptions
from counton.cli.outputs import PICTURES, check_output, write_table
from counton.cli.printing import print_json, print_line
from counton.cli.progress import working
from counton.cli.report import as_json, operator_notes, show, subject
from counton.events.domain import is_file
from counton.jobs import Definition, Outcome, Progress, Released, Request, run
from counton.mechanisms.intervals import check_level
from counton.plots.totals import check_groups
from counton.store import key_path, state_file
from counton.store.whole_file import replace_file


def perform(options: EventOptions, *, bar: bool = False) -> None:
    """Release what is due, then write and print from the journal.

    Args:
        options: as given.
        bar: show progress also where nobody watches a terminal.

    Raises:
        CountonError: see `counton.jobs.run`.
    """
    errors = Console(stderr=True)
    inputs = _files(options)
    if options.out is not None:
        check_output(options.out, inputs=inputs)
    if options.plot is not None:
        check_output(options.plot, PICTURES, inputs=inputs)
    check_level(options.level)

    def approve(definition: Definition) -> None:
        if options.plot is not None:
            check_groups(len(definition.groups))

    with (
        working(errors, always=bar) as progress,
        run(request_of(options), progress, approve=approve) as outcome,
    ):
        released = None
        if outcome.after:
            progress("reading the journal", 0.7)
            released = outcome.released(options.level)
            _write(outcome, released, options, progress)
    for note in operator_notes(outcome):
        print_line(errors, note)
    if options.json:
        print_json(as_json(outcome, released, options))
    else:
        show(Console(), outcome, released, options)


def request_of(options: EventOptions) -> Request:
    """What the options ask of the job; the others say what to do with its result."""
    names = {field.name for field in fields(Request)}
    given = {
        field.name: getattr(options, field.name) for field in fields(options) if field.name in names
    }
    return Request(what=options.what, **given)


def _files(options: EventOptions) -> list[Path]:
    """Files that the run reads or keeps."""
    named = [options.events, options.domain, options.key]
    file = state_file(options.state)
    if file is not None:
        named += [file, key_path(options.state)]
    return [Path(name) for name in named if name is not None and is_file(str(name))]


def _write(outcome: Outcome, released: Released, options: EventOptions, progress: Progress) -> None:
    if options.out is not None:
        progress("writing the table", 0.75)
        write_table(released.table(), options.out)
    if options.plot is None:
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
        f"({definition.contribution.neighbours}); bands: {100 * options.level:g}% intervals",
        f"since {released.local_start()}"
        + (f", each point released {released.delay:,} windows later" if released.delay else ""),
    )
    replace_file(options.plot, lambda name: save_figure(figure, name))
