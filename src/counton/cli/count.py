"""The commands ``count`` and ``sum``: run the job, write its outputs, print its report."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console

from counton.cli.job import Outcome, run
from counton.cli.progress import Report, working
from counton.cli.released import Released, check_output, replace_file, write_table
from counton.cli.report import as_json, operator_notes, show, subject
from counton.cli.request import Request
from counton.events.domain import is_file
from counton.store import key_path
from counton.store.database import parse

_PICTURES = (".png", ".svg", ".pdf")


def perform(request: Request) -> None:
    """Release what is due, then write and print from the journal.

    Raises:
        CountonError: see `counton.cli.job.run`.
    """
    errors = Console(stderr=True)
    inputs = _files(request)
    if request.out is not None:
        check_output(request.out, inputs=inputs)
    if request.plot is not None:
        check_output(request.plot, _PICTURES, inputs=inputs)
    with working(errors, always=request.bar) as report:
        outcome = run(request, report)
        with outcome.stream:
            released = None
            if outcome.after:
                report("reading the journal", 0.7)
                released = Released.read(outcome.stream, outcome.definition, request.level)
                _write(outcome, released, request, report)
    for note in operator_notes(outcome):
        errors.print(note, highlight=False, markup=False, soft_wrap=True)
    if request.json:
        sys.stdout.write(json.dumps(as_json(outcome, released, request), indent=2) + "\n")
    else:
        show(Console(), outcome, released, request)


def _files(request: Request) -> list[Path]:
    """Files that the run reads or keeps."""
    url = parse(request.state)
    named = [request.events, request.domain, request.key]
    if url.get_backend_name() == "sqlite":
        named += [url.database, key_path(request.state)]
    return [Path(name) for name in named if name is not None and is_file(str(name))]


def _write(outcome: Outcome, released: Released, request: Request, report: Report) -> None:
    if request.out is not None:
        report("writing the table", 0.75)
        write_table(released.table(), request.out)
    if request.plot is None:
        return
    report("drawing", 0.85)
    from counton.analysis.plots import plot_totals, save_figure

    definition = outcome.definition
    by = f", by {definition.columns.group}" if definition.columns.group else ""
    figure = plot_totals(
        released.curves(),
        f"Running {subject(definition)}{by}",
        f"{definition.guarantee} protects each single {definition.unit} "
        f"({definition.contribution.neighbours}); bands: {100 * request.level:g}% intervals",
        f"since {released.local_start()}",
    )
    replace_file(request.plot, lambda name: save_figure(figure, name))
