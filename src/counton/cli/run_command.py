"""The command ``counton run``: the jobs of a file, one after the other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from counton.base.errors import InvalidInputError, StreamClosedError
from counton.cli.command_class import CountonCommand, option
from counton.cli.exits import ExitCode
from counton.cli.parameters import JSON_HELP

if TYPE_CHECKING:
    from counton.job.common_options import Job


@click.command("run", cls=CountonCommand)
@click.argument("file", required=False, help="A job file: TOML with [defaults] and [jobs.NAME].")
@option("--only", help="Run only these jobs, A,B. [default: all, in the order of the file]")
@option(
    "--until",
    help="Release windows that ended by this time, or newest: by the newest row. [default: now]",
)
@option("--allow-empty-windows", is_flag=True, help="Release windows although they have no rows.")
@option(
    "--dry-run",
    is_flag=True,
    help="Plan the jobs, read the rows and check what can be checked; write nothing.",
)
@option("--schema", is_flag=True, help="Print the JSON schema of job files, and do nothing else.")
@option("--json", "as_json", is_flag=True, help=JSON_HELP)
def run(
    file: str | None,
    only: str | None,
    until: str | None,
    allow_empty_windows: bool,
    dry_run: bool,
    schema: bool,
    as_json: bool,
) -> None:
    """Run the jobs of a file, one after the other.

    A job that fails is reported, and the other jobs run. The exit code is that of the first
    failure. counton init writes a job file, and counton release ... --save-job too. --schema prints all
    that a job file may hold. An option of this command overrides the file, in all jobs, for this
    run.
    """
    from counton.cli.failures import failed_report, failure
    from counton.cli.print_forms import Console, ReportLines, print_json, warn_of_witness_beside
    from counton.job.common_options import Job
    from counton.job.job_file import load_usable, published_to, select_jobs
    from counton.job.json_schema import schema as schema_of_job_files
    from counton.run.path_conflicts import JobStates, refuse_shared

    if schema:
        print_json(schema_of_job_files())
        return
    if file is None:
        raise InvalidInputError("the job file is missing; name it, as in: counton run nightly.toml")
    overrides = _parse_overrides(until=until, allow_empty_windows=allow_empty_windows)
    loaded = load_usable(file)
    publish_to = published_to(file)
    selected = select_jobs(loaded, only)
    all_jobs = {name: job for name, job in loaded.items() if isinstance(job, Job)}
    jobs = {name: job for name, job in all_jobs.items() if name in selected}
    errors = ReportLines() if as_json else Console(stderr=True)
    with JobStates(all_jobs) as states:
        refuse_shared(states.jobs)
        if publish_to is not None:
            _refuse_publishing(states.jobs, jobs, publish_to)
        jobs_of_run = {
            name: _override(job, overrides, is_begun=name in states.begun)
            for name, job in jobs.items()
        }
        if not dry_run:
            guards = [(job.state, job.rollback_guard) for job in jobs.values()]
            warn_of_witness_beside(errors, *guards, opened=states.at)
    if dry_run:
        from counton.cli.dry_run_report import print_dry_run

        print_dry_run({**selected, **jobs_of_run}, as_json=as_json)
        return
    reports: dict[str, Any] = {}
    first_failure = ExitCode.OK
    for number, (name, loaded_job) in enumerate(selected.items()):
        if not as_json:
            blank_line = "\n" if number else ""
            Console().write_line(f"{blank_line}job {name}", bold=True)
        try:
            if not isinstance(loaded_job, Job):
                raise loaded_job
            reports[name] = _run_job(name, jobs_of_run[name], publish_to, is_silent=as_json)
            if until is None:
                _tell_date_in_file(jobs[name], reports[name], is_silent=as_json)
            chart_error = reports[name]["not_drawn"]
            if chart_error:
                first_failure = first_failure or ExitCode.ERROR
                if not as_json:
                    errors.write_line(f"counton: job {name}: {chart_error}")
        except StreamClosedError as error:
            reports[name] = _report_ended(jobs_of_run[name], error.step, is_silent=as_json)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # a panic of a library in another language is no Exception
            code, message = failure(error)
            if code is ExitCode.ERROR and only is not None and not as_json:
                raise  # somebody wants to see where it fails
            first_failure = first_failure or code
            reports[name] = failed_report(code, message)
            if not as_json:
                is_named = message.startswith(f"job {name!r} of ")
                job_words = "" if is_named else f"job {name}: "
                errors.write_line(f"counton: {job_words}{message}")
    if isinstance(errors, ReportLines):
        print_json({"jobs": reports, "warnings": errors.lines})
    if first_failure:
        raise SystemExit(int(first_failure))


# ------------------------------------------------------------------------- the jobs of this run
def _parse_overrides(*, until: str | None, allow_empty_windows: bool) -> dict[str, Any]:
    """Return the options of the command that hold for all jobs, as values of jobs."""
    from counton.job.messages import parse_options
    from counton.job.statistics import CountJob

    stated: dict[str, Any] = {"allow_empty_windows": allow_empty_windows}
    if until is not None:
        stated["until"] = until
    job: Job = parse_options(CountJob, stated)
    return {name: job.value_of(name) for name in stated if job.states(name)}


def _override(job: Job, overrides: Mapping[str, Any], *, is_begun: bool) -> Job:
    """Return a job with the options that the command states for this run alone.

    A new stream of rows without times is a single table, which has no ``until``.
    """
    if job.time is None and not is_begun:
        overrides = {name: value for name, value in overrides.items() if name != "until"}
    return job.with_options(**overrides)


def _refuse_publishing(
    all_jobs: Mapping[str, Job], jobs: Mapping[str, Job], publish_to: str
) -> None:
    """Refuse a database for published numbers that a job uses or that cannot hold them.

    Args:
        all_jobs: all jobs of the file.
        jobs: the jobs of this run.
        publish_to: the database.
    """
    from counton.run.path_conflicts import refuse_publishing_over
    from counton.state.database import parse_address
    from counton.state.sql_view import checked_address

    refuse_publishing_over(all_jobs, publish_to)
    for job in jobs.values():
        checked_address(publish_to, parse_address(_state_of(job)))


def _state_of(job: Job) -> str:
    assert job.state is not None, "a job of a file names its state"
    return os.fspath(job.state)


# ----------------------------------------------------------------------------------- each job
def _run_job(name: str, job: Job, publish_to: str | None, *, is_silent: bool) -> dict[str, Any]:
    """Run one job, and publish its releases; return its report.

    Args:
        name: name of the job.
        job: the job.
        publish_to: database in which its releases are published; None: nowhere.
        is_silent: print nothing.
    """
    from counton.cli.statistic_run import carry_out

    report = carry_out(job, is_silent=is_silent, about=f"job {name}: ")
    if publish_to is not None:
        _publish(job, publish_to, is_silent=is_silent)
    return report


def _publish(job: Job, to: str, *, is_silent: bool) -> None:
    from counton.cli.print_forms import Console
    from counton.job.saved_job import stream_name
    from counton.run.exports import publish

    publication = publish(_state_of(job), to, stream=stream_name(job), key=job.key)
    if is_silent:
        return
    new = publication.after - publication.before
    Console().write_line(
        f"published {new:,} new {'step' if new == 1 else 'steps'}, {publication.after:,} in all, "
        f"in {publication.place}"
    )


def _tell_date_in_file(job: Job, report: dict[str, Any], *, is_silent: bool) -> None:
    """Say that a date in a job file ends the stream, if it does."""
    from counton.cli.print_forms import Console
    from counton.job.saved_job import date_of_one_run

    date = date_of_one_run(job)
    if date is None:
        return
    report["until_in_file"] = date
    if not is_silent:
        Console().write_line(
            f"the job file says until = {date}, so no run releases a later window: take that line "
            "out to go on"
        )


def _report_ended(job: Job, last_step: int, *, is_silent: bool) -> dict[str, Any]:
    """Return the report of a job whose stream was ended, so that it releases nothing."""
    from counton.cli.print_forms import Console
    from counton.job.saved_job import stream_name

    name = stream_name(job)
    if not is_silent:
        Console().write_line(f"stream {name!r} has ended at step {last_step:,}: nothing to release")
    return {"state": _state_of(job), "stream": name, "ended": last_step}
