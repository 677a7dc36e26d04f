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
    confidential_notes,
    count_column_option,
    empty_other_group_notes,
    left_out_options_note,
    number_of_dropped_rows,
)
from counton.io.input_paths import left_in_folders
from counton.job.common_options import Job
from counton.run.dry_run import DryRun, dry_run
from counton.run.plan_job import PlannedJob, planned_jobs
from counton.run.spec.terms import SingleTable
from counton.run.stream_notes import new_stream_notes


@dataclass(frozen=True)
class Rehearsal:
    """A job that a run would carry out."""

    job: Job
    plan: PlannedJob
    result: DryRun


@dataclass(frozen=True)
class ClosedJob:
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
        reports = {
            name: _to_dict(outcome, until_is_of_file=until_is_of_file)
            for name, outcome in outcomes.items()
        }
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
) -> Rehearsal | ClosedJob | FailedJob:
    try:
        if isinstance(job, CountonError):
            raise job
        if not isinstance(plan, PlannedJob):
            raise plan
        return Rehearsal(job, plan, dry_run(job))
    except StreamClosedError as error:
        return ClosedJob(error.step)
    except (CountonError, OSError) as error:
        return FailedJob(*failure(error))


def _print(
    name: str, outcome: Rehearsal | ClosedJob | FailedJob, *, until_is_of_file: bool
) -> None:
    console = Console()
    errors = Console(stderr=True)
    match outcome:
        case Rehearsal():
            result = outcome.result
            console.write_line(f"{name}: {_release_in_words(result)} {_loss_in_words(outcome)}")
            _write_remarks(outcome, errors, f"job {name}: ")
            names = names_of_job(outcome.job, until_is_of_file=until_is_of_file)
            n_read = result.confidential_counts().rows.read
            for note in (f"rows read: {n_read:,}", *_confidential_notes(result, names)):
                errors.write_line(f"{CONFIDENTIAL}: job {name}: {note}")
        case ClosedJob():
            console.write_line(
                f"{name}: closed at window {outcome.closed_at_step:,}; nothing more is released"
            )
        case FailedJob():
            errors.write_line(line_of_failed_job(name, outcome.message))


def _confidential_notes(result: DryRun, names: Mapping[str, str]) -> list[str]:
    """Return the notes of the run, with what can be done as long as there is no stream."""
    notes = confidential_notes(result, result.confidential_newly_quarantined(), names)
    if not result.begins_stream:
        return notes
    without_rows = empty_other_group_notes(result)
    remedy = (
        "To leave it out, delete the line other-group before the first run. A row of an unlisted "
        "group then stops the run"
    )
    return [f"{note}. {remedy}" if note in without_rows else note for note in notes]


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
    if not result.begins_stream:
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
    new = result.after - result.before
    contents = "the table"
    if windows.is_recurring:
        contents = counted(new, windows.noun)
    if result.begins_stream:
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
    if rehearsal.result.begins_stream:
        return f"It would spend {loss} for each {unit}, once for the whole stream."
    return f"The privacy loss is {loss} for each {unit}, which is spent already."


def _to_dict(
    outcome: Rehearsal | ClosedJob | FailedJob, *, until_is_of_file: bool
) -> dict[str, object]:
    match outcome:
        case Rehearsal():
            names = names_of_job(outcome.job, until_is_of_file=until_is_of_file)
            return _rehearsal_to_dict(outcome, names)
        case ClosedJob():
            return {"ended": outcome.closed_at_step}
        case FailedJob():
            return failed_report(outcome.code, outcome.message)


def _rehearsal_to_dict(outcome: Rehearsal, names: Mapping[str, str]) -> dict[str, object]:
    result = outcome.result
    windowing = result.spec.terms.windowing
    metadata = result.spec.metadata()
    counts = result.confidential_counts()
    warnings = ReportLines()
    _write_remarks(outcome, warnings, "")
    is_single_table = isinstance(windowing, SingleTable)
    return {
        "new_stream": result.begins_stream,
        "released": result.before,
        "would_release": result.after - result.before,
        "until": None if is_single_table else windowing.windows.format_moment(result.until),
        "guarantee": metadata.guarantee.to_dict(),
        "privacy_unit": metadata.privacy_unit,
        "warnings": warnings.lines,
        "plan": outcome.plan.to_dict(),
        "not_private": {
            "rows": counts.rows.read,
            "dropped": number_of_dropped_rows(result, counts),
            "quarantined": counts.rows.quarantined,
            "notes": _confidential_notes(result, names),
        },
    }
