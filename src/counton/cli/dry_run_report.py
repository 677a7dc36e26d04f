"""The option ``counton run --dry-run``: everything that a run does, except its releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from counton.base.errors import CountonError, StreamClosedError, translate
from counton.base.wording import counted
from counton.cli.exits import ExitCode
from counton.cli.failures import (
    failed_report,
    failure,
    line_of_failed_job,
    names_in_run,
    names_of_job,
)
from counton.cli.job_plan import loss_of
from counton.cli.print_forms import (
    CONFIDENTIAL,
    Console,
    ReportLines,
    print_json,
    warn_of_weak,
)
from counton.cli.run_report import (
    count_column_option,
    empty_other_group_notes,
    held_back_notes,
    left_out_options_note,
    missing_row_notes,
    omitted_row_notes,
    unlisted_group_notes,
    user_notes,
)
from counton.io.input_paths import left_in_folders
from counton.job.common_options import Job
from counton.run.dry_run import DryRun, dry_run
from counton.run.plan_job import PlannedJob, planned_jobs
from counton.run.rows.row_numbers import RowNumbers
from counton.run.spec.terms import SingleTable
from counton.run.stream_notes import new_stream_notes


@dataclass(frozen=True)
class Rehearsal:
    """A job that a run would carry out."""

    job: Job
    plan: PlannedJob
    result: DryRun


@dataclass(frozen=True)
class ClosedStream:
    """A job whose stream was closed, so that a run does nothing."""

    closed_at_step: int


@dataclass(frozen=True)
class FailedJob:
    """A job that a run would refuse."""

    code: ExitCode
    message: str


def print_dry_run(
    jobs: Mapping[str, Job | CountonError], *, until_is_of_file: bool, as_json: bool
) -> None:
    """Plan jobs, check them and read their rows; print the windows that a run would release.

    Args:
        jobs: the jobs by name; in place of a job that cannot be read, its error.
        until_is_of_file: whether the job file states up to when windows are released, if anything
            does.
        as_json: print one JSON object in place of text.

    Raises:
        SystemExit: a job would fail; the exit code is the one that the run would have.
    """
    outcomes = {name: _rehearse(jobs[name], plan) for name, plan in planned_jobs(jobs).items()}
    if as_json:
        reports = {name: _to_dict(outcome) for name, outcome in outcomes.items()}
        print_json({"dry_run": True, "jobs": reports})
    else:
        for name, outcome in outcomes.items():
            _print(name, outcome, until_is_of_file=until_is_of_file)
        has_read_rows = any(isinstance(outcome, Rehearsal) for outcome in outcomes.values())
        rows_were_read = "rows were read; " if has_read_rows else ""
        Console().write_line(f"Dry run: {rows_were_read}nothing was written or released.")
    for outcome in outcomes.values():
        if isinstance(outcome, FailedJob):
            raise SystemExit(int(outcome.code))


def _rehearse(
    job: Job | CountonError, plan: PlannedJob | CountonError | OSError
) -> Rehearsal | ClosedStream | FailedJob:
    try:
        if isinstance(job, CountonError):
            raise job
        if not isinstance(plan, PlannedJob):
            raise plan
        return Rehearsal(job, plan, dry_run(job))
    except StreamClosedError as error:
        return ClosedStream(error.step)
    except (CountonError, OSError) as error:
        return FailedJob(*failure(error))


def _print(
    name: str, outcome: Rehearsal | ClosedStream | FailedJob, *, until_is_of_file: bool
) -> None:
    console = Console()
    errors = Console(stderr=True)
    match outcome:
        case Rehearsal():
            result = outcome.result
            console.write_line(f"{name}: {_release_in_words(result)} {_loss_in_words(outcome)}")
            _write_remarks(outcome, errors, f"job {name}: ")
            rows = result.confidential_counts()
            names = names_of_job(outcome.job, until_is_of_file=until_is_of_file)
            notes = [
                f"rows read: {rows.read:,}",
                *held_back_notes(result.confidential_held_back(), names),
                *omitted_row_notes(rows, result.confidential_beyond_limit()),
                *unlisted_group_notes(rows, result.spec),
                *missing_row_notes(result.confidential_without_rows(), result.spec),
                *_empty_other_group_notes(result, rows),
                *user_notes(rows, result.spec),
            ]
            for note in notes:
                errors.write_line(f"{CONFIDENTIAL}: job {name}: {note}")
        case ClosedStream():
            console.write_line(
                f"{name}: closed at window {outcome.closed_at_step:,}; nothing more is released"
            )
        case FailedJob():
            errors.write_line(line_of_failed_job(name, outcome.message))


def _empty_other_group_notes(result: DryRun, rows: RowNumbers) -> list[str]:
    """Return a note on a group that is only noise, with the remedy while a new stream has one."""
    if result.before is not None:
        return []
    remedy = (
        "To leave it out, delete the line other-group before the first run. A row of an unlisted "
        "group then stops the run"
    )
    return [f"{note}. {remedy}" for note in empty_other_group_notes(rows, result.spec)]


def _write_remarks(rehearsal: Rehearsal, messages: Console | ReportLines, prefix: str) -> None:
    """Write what may be wrong with a job, as a run does.

    Args:
        rehearsal: the job, and what its run would do.
        messages: where they are written.
        prefix: beginning of each message.
    """
    result = rehearsal.result
    unread = left_in_folders(rehearsal.job.events, rehearsal.job.file_format)
    if unread is not None:
        messages.write_line(f"{prefix}{unread}")
    if result.before is not None:
        left_out = left_out_options_note(result.spec, rehearsal.job)
        if left_out is not None:
            names = names_in_run([type(rehearsal.job)])
            messages.write_line(f"{prefix}note: {translate(left_out, names)}")
        return
    metadata = result.spec.metadata()
    warn_of_weak(messages, metadata.guarantee, metadata.privacy_unit, prefix)
    notes = new_stream_notes(
        result.spec,
        rehearsal.job,
        column_names=result.column_names,
        other_units=rehearsal.plan.other_units,
        count_column=count_column_option,
    )
    for note in notes:
        messages.write_line(f"{prefix}note: {note}")


def _release_in_words(result: DryRun) -> str:
    windows = result.spec.terms.windowing.windows
    new = result.after - (result.before or 0)
    contents = "the table"
    if windows.is_recurring:
        contents = counted(new, windows.noun)
    if result.before is None:
        return f"would create the stream and release {contents}."
    if not new:
        return f"would release nothing: no new window is due after {result.before:,}."
    first = result.before + 1
    numbers = f"window {first:,}" if new == 1 else f"windows {first:,} to {result.after:,}"
    return f"would release {contents} ({numbers})."


def _loss_in_words(rehearsal: Rehearsal) -> str:
    """Return a sentence on what a run would spend."""
    loss = loss_of(rehearsal.plan)
    unit = rehearsal.result.spec.metadata().privacy_unit
    if rehearsal.result.before is None:
        return f"It would spend {loss} for each {unit}, once for the whole stream."
    return f"The privacy loss is {loss} for each {unit}, which is spent already."


def _to_dict(outcome: Rehearsal | ClosedStream | FailedJob) -> dict[str, object]:
    match outcome:
        case Rehearsal():
            return _rehearsal_to_dict(outcome)
        case ClosedStream():
            return {"ended": outcome.closed_at_step}
        case FailedJob():
            return failed_report(outcome.code, outcome.message)


def _rehearsal_to_dict(outcome: Rehearsal) -> dict[str, object]:
    result = outcome.result
    windowing = result.spec.terms.windowing
    metadata = result.spec.metadata()
    rows = result.confidential_counts()
    warnings = ReportLines()
    _write_remarks(outcome, warnings, "")
    dropped = (
        rows.before_start
        + rows.after_last_window
        + rows.unlisted
        + rows.missing
        + result.confidential_beyond_limit()
    )
    is_single_table = isinstance(windowing, SingleTable)
    return {
        "new_stream": result.before is None,
        "released": result.before or 0,
        "would_release": result.after - (result.before or 0),
        "until": None if is_single_table else windowing.windows.format_moment(result.until),
        "guarantee": metadata.guarantee.to_dict(),
        "privacy_unit": metadata.privacy_unit,
        "warnings": warnings.lines,
        "plan": outcome.plan.to_dict(),
        "not_private": {
            "rows": rows.read,
            "dropped": dropped,
            "quarantined": rows.quarantined,
        },
    }
