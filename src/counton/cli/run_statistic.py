"""The common part of all statistics' commands: run the job, write its outputs, print the release.

Exact facts about the events are for the operator: they go to stderr, or in JSON under
``not_private``.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from counton.base.errors import InvalidInput, hide_secrets
from counton.cli.command_options import Printing
from counton.cli.exits import ExitCode
from counton.cli.print_forms import (
    Console,
    ReportLines,
    print_json,
    warn_of_weak,
    warn_of_witness_beside,
    working,
)
from counton.cli.run_words import (
    EXACT,
    counted_column,
    distinct_lines,
    next_release,
    operator_notes,
    progress_line,
    promise,
    time_warnings,
)
from counton.job.job import NEWEST
from counton.released.besides_noise import besides_noise
from counton.released.screen import Screen, screen_of
from counton.rows.paths import left_in_folders
from counton.run import Job, Outcome
from counton.run.clock import length_of
from counton.run.outputs import WrittenOutputs
from counton.run.runs import commit, read_rows
from counton.run.settlement import SettledJob, resolve
from counton.statistics.catalogue import statistic_to_dict

#: The option for a file with all released rows.
_OUT = "--out"


def perform(job: Job, printing: Printing | None = None) -> None:
    """Release the windows that are due; then write outputs and print the release, both from
    released numbers.
    """
    printing = Printing() if printing is None else printing
    report = carried_out(job, silently=printing.json, asks=True)
    if printing.save is not None:
        save_as_asked(job, printing.save)
    if printing.json:
        print_json(report)
    if report["not_drawn"]:
        raise OSError(report["not_drawn"])


def save_as_asked(job: Job, file: Path) -> None:
    """Write the job into the job file that ``--save`` names, and say so."""
    from counton.job.jobfile import last_date, save

    save(job, file)
    date = last_date(job)
    less = f", without --until {date}, which holds for this run alone" if date else ""
    Console(stderr=True).write_line(f"saved as job {job.keeping.name} in {file}{less}")


def carried_out(
    job: Job,
    *,
    silently: bool,
    about: str = "",
    asks: bool = False,
) -> dict[str, Any]:
    """Release the windows that are due, write outputs, and print the release.

    Return the report as JSON values. If a chart could not be drawn, only the report says so, under
    ``not_drawn``.

    Args:
        silently: print nothing, and return the whole report.
        about: prefix of messages for the operator, such as the job's name if several jobs run.
        asks: ask a person at the terminal before a new stream begins.
    """
    errors = Console(stderr=True)
    report_lines = ReportLines() if silently else errors
    with ExitStack() as held:
        with working(errors) as progress:
            settled = held.enter_context(resolve(job, progress=progress))
            file = settled.job.format.policies().quarantine
            aside = frozenset() if file is None else distinct_lines(file)
            rows = read_rows(settled, progress)
        if asks and errors.is_terminal and sys.stdin.isatty():
            _ask_before(settled, rows.ended, errors)
        if not about:
            state = job.keeping.state, job.keeping.witness
            warn_of_witness_beside(
                report_lines, state, option="--witness", opened=lambda _: settled.store
            )
        progress = held.enter_context(working(errors))
        with commit(settled, rows, progress) as outcome:
            columns = rows.columns
            del rows
            written = outcome.outputs.write(
                outcome.stream, outcome.definition, progress, warn=lambda _: None
            )
            definition = outcome.definition
            if (unread := left_in_folders(job.events, job.format.file_format)) is not None:
                report_lines.write_line(f"{about}{unread}")
            if not outcome.before:
                warn_of_weak(report_lines, definition.guarantee, definition.unit, about)
            # Of the rows that cannot be read, those that no earlier run has written to their file.
            added = 0 if file is None else len(distinct_lines(file) - aside)
            new = min(outcome.for_operator().quarantined, added)
            waits = length_of(settled.job.lateness.watermark) > 0
            notes = operator_notes(outcome, new, waits=waits)
            if (differing := outcome.differing_rows) is not None:
                notes.insert(0, differing)
            if (said := counted_column(columns, settled.job)) is not None:
                report_lines.write_line(f"{about}note: {said}")
            if isinstance(report_lines, ReportLines):
                return as_json(outcome, written, warnings=report_lines.lines, notes=notes)
            for note in notes:
                errors.write_line(f"{about}{EXACT}: {note}")
            show(Console(), outcome, written)
            return {"not_drawn": written.not_drawn}


def show(console: Console, outcome: Outcome, written: WrittenOutputs) -> None:
    """Print new windows, the last step, the guarantee, and the paths of written files, which do not
    exist before the first release.
    """
    console.write_line(progress_line(outcome), bold=True)
    watermark = outcome.job.lateness.watermark
    if outcome.after == outcome.before:
        for line in next_release(outcome, watermark):
            console.write_line(line)
    screen = Screen() if written.released is None else screen_of(written.released)
    if written.released is not None:
        console.write_line(screen.heading)
        for table in screen.tables:
            console.write_table(table)
        if screen.left_out:
            console.write_line(f"{screen.left_out}: a table ({_OUT}) has them all")
    spent = (f"spent: {line}" for line in outcome.stream.totals_apart)
    for note in (*screen.notes, *time_warnings(outcome, outcome.job), *spent):
        console.write_line(note)
    console.write_line(f"promise: {promise(outcome.definition)}")
    state = shlex.quote(hide_secrets(str(outcome.job.keeping.state)))
    console.write_line(f"the rest: counton methods {state} --full")
    default = str(outcome.job.keeping.state).endswith(".counton.db")
    if outcome.before == 0 and default and is_beside(outcome.job):
        key = "" if outcome.job.keeping.key is not None else f" and {state}.key"
        console.write_line(
            f"kept beside the events, and secret: {state}{key}. If the events move or are renamed, "
            f"give --state: otherwise another stream begins, and spends again"
        )
    if written.released is None:  # then no file was written
        return
    outputs = outcome.outputs
    for name, path in ("table", outputs.out), ("chart", outputs.plot if written.drawn else None):
        if path is not None:
            console.write_line(f"{name} written to {path}")


def is_beside(job: Job) -> bool:
    """Return whether a job's state (database) has the default path, beside the events."""
    from counton.run.default_state import state_beside

    try:
        return str(job.keeping.state) == state_beside(job.events, append=job.rows.append)
    except InvalidInput:
        return False


def as_json(
    outcome: Outcome,
    written: WrittenOutputs,
    *,
    warnings: Sequence[str],
    notes: Sequence[str],
) -> dict[str, Any]:
    """Return the report of a run as JSON values.

    Args:
        warnings: remarks without exact numbers.
        notes: exact facts about the events.
    """
    from counton.released.stream_words import people_note

    job, released, outputs = outcome.job, written.released, outcome.outputs
    definition, until, cut = outcome.definition, outcome.until, outcome.definition.cut
    drawn, counts = released is None or written.drawn, outcome.for_operator()
    report: dict[str, Any] = {
        "state": str(job.keeping.state),
        "name": job.keeping.name,
        "statistic": {"name": definition.what, **statistic_to_dict(definition.statistic)},
        "steps": cut.steps if cut.goes_on else definition.strategy.horizon,
        "once": not cut.goes_on,
        "released": outcome.after,
        "new": outcome.after - outcome.before,
        "until": None if until is None else cut.at(until),
        "until_from_data": job.times.until == NEWEST,
        "protected": definition.contribution.describe(definition.unit),
        "people": people_note(definition),
        "besides_noise": besides_noise(definition),
        "unit": definition.unit,
        "contribution": definition.contribution.to_dict(),
        "guarantee": definition.guarantee.to_dict(),
        "totals_apart": outcome.stream.totals_apart,
        "release": definition.release,
        "strategy": repr(definition.strategy),
        "delay": definition.strategy.facts.delay,
        "level": outputs.level,
        "out": None if outputs.out is None else str(outputs.out),
        "plot": None if outputs.plot is None or not drawn else str(outputs.plot),
        "not_drawn": written.not_drawn,
        "warnings": [*warnings],
        "last": None,
        "not_private": {
            "rows": counts.rows,
            "late": counts.late,
            "dropped": sum(
                (
                    *(counts.before, counts.beyond, counts.unknown),
                    *(counts.skipped, counts.beyond_most, counts.closed),
                )
            ),
            "quarantined": counts.quarantined,
            "notes": [*notes],
        },
    }
    if released is None:
        return report
    last: dict[str, Any] = {"step": released.steps[-1]}
    report["last"] = last
    last |= cut.when(released.steps[-1])
    if not cut.goes_on:
        report["last"] = last = {**released.facts()}
        last.pop("statistic")
    return report | {"last": last | released.last_numbers()}


_PUBLISHED = {
    "both": "totals and windows",
    "periods": "of each period in which users are counted anew, its number so far",
}


def _ask_before(settled: SettledJob, ended: int, console: Console) -> None:
    """Ask whether a new stream may begin, because its privacy loss and its publication cannot be
    undone.

    Nobody is asked if the stream exists, or the job states ``yes``.

    Args:
        ended: number of windows that would be released at once.

    Raises:
        SystemExit: the answer is not yes; nothing is released or kept.
    """
    if settled.saved is not None or settled.job.times.yes:
        return
    from counton.released.stream_words import groups_in_words, statistic_in_words

    definition, cut = settled.definition, settled.definition.cut
    what = statistic_in_words(definition).removesuffix(",")
    if definition.domain:
        what += f" by {groups_in_words(definition)} ({len(definition.domain):,} groups)"
    if cut.goes_on:
        most = definition.strategy.horizon
        ever = "without an end" if most is None else f"of {most:,} {cut.noun}s"
        now = f"{ended:,} {cut.noun}{'s' * (ended != 1)}"
        what += f": {_PUBLISHED.get(definition.release, definition.release)} {ever}, {now} now"
    loss = str(definition.guarantee).partition(" with ")[2] or str(definition.guarantee)
    console.write_line(
        f"New stream {settled.job.keeping.name!r} publishes the {what}, and spends {loss} of the "
        f"privacy of each {definition.unit}. Neither can be taken back."
    )
    try:
        answer = console.ask_line("Release? [y/N] ")
    except (EOFError, KeyboardInterrupt):
        answer = ""
    if answer.lower() not in ("y", "yes"):
        console.write_line("nothing is released or spent")
        raise SystemExit(int(ExitCode.FAILED))
